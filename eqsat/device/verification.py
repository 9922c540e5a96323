"""Whether what Vela makes of a graph computes what the graph says: its binary on the functional model, against the TOSA reference model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.device.binary import Binary
from eqsat.device.compile import compile_binary, of_answer
from eqsat.device.errors import DeviceError, DeviceFault
from eqsat.device.run import Device
from eqsat.target import Target
from eqsat.tensor.samples import domains, samples
from eqsat.tosa.flatbuffer import loads
from eqsat.tosa.model import packed, unpacked
from eqsat.tosa.reference import run_samples
from eqsat.vela import regor
from eqsat.workers.worker import Limits, Pool, Worker, WorkerError


@dataclass(frozen=True, slots=True)
class Verdict:
    """equal: whether all outputs equal the reference's to the bit (None: the binary could not be run, or there was nothing to compare with).
    reason: why not, or why None. samples: on how many they were compared."""

    equal: bool | None
    reason: str = ""
    samples: int = 0


def run_compiled(buffer: bytes, flags: list[str], inputs: bytes) -> dict[str, Any]:
    """In a worker: compiles a TOSA graph and runs its binary on packed inputs, [samples, ...] each. Gives "outputs", packed; or why there are none:
    "fault", what no binary may do, or "unknown", what the model cannot run. Raises what Vela raises."""
    return outputs_of(of_answer(regor.binary(buffer, flags)), inputs)


def outputs_of(binary: Binary, inputs: bytes) -> dict[str, Any]:
    try:
        return {"outputs": packed(Device(binary).run(unpacked(inputs)))}
    except DeviceFault as e:
        return {"fault": str(e)}
    except DeviceError as e:
        return {"unknown": str(e)}


def check(
    buffer: bytes,
    target: Target,
    via: Pool | Worker,
    inputs: Sequence[Sequence[np.ndarray]],
    expected: Sequence[Sequence[np.ndarray]],
    timeout: float = 300.0,
) -> Verdict:
    """inputs, expected: of each sample those of the graph. Raises WorkerError where Vela refuses the graph."""
    stacked = packed(np.stack(xs) for xs in zip(*inputs, strict=True))
    try:
        answer = via.call(run_compiled, buffer, list(target.flags), stacked, limits=Limits(timeout))
    except WorkerError as e:
        if e.refused:
            raise
        if not (e.killed or e.stopped):
            _compiled_once_more(buffer, target, via, timeout)
        return Verdict(None, str(e))
    if "unknown" in answer:
        return Verdict(None, answer["unknown"])
    if "fault" in answer:
        return Verdict(False, answer["fault"], len(inputs))
    if (outputs := len(unpacked(answer["outputs"]))) != len(expected[0]):
        lost = outputs < len(set(loads(buffer, "the graph").outputs))
        return Verdict(False if lost else None, f"its binary has only {outputs} of {len(expected[0])} outputs")
    reason = _difference(unpacked(answer["outputs"]), expected)
    return Verdict(not reason, reason, len(inputs))


def _compiled_once_more(buffer: bytes, target: Target, via: Pool | Worker, timeout: float) -> None:
    """Raises WorkerError, `refused`, where it is Vela that the worker does not survive: of some graphs its recursion has no end."""
    try:
        compile_binary(buffer, target, via, timeout)
    except WorkerError as e:
        raise WorkerError(f"Vela does not survive the graph: {e}", refused=True) from e


def _difference(got: Sequence[np.ndarray], expected: Sequence[Sequence[np.ndarray]]) -> str:
    """Where stacked outputs differ, or ""."""
    for slot, want in enumerate(zip(*expected, strict=True)):
        w, y = np.stack(want), got[slot]
        if y[0].nbytes != w[0].nbytes:
            return f"output {slot} has {y[0].nbytes} bytes instead of {w[0].nbytes}"
        y = np.broadcast_to(y, (len(w), *y.shape[1:]))  # without inputs there is one sample
        y = np.ascontiguousarray(y).view(w.dtype).reshape(w.shape)
        if not np.array_equal(y, w):
            far = np.abs(y.astype(np.float64) - w.astype(np.float64))
            return f"output {slot} differs in {np.count_nonzero(far)} of {far.size} elements, by up to {far.max():g}"
    return ""


def verify(
    buffer: bytes, target: Target, via: Pool | Worker, samples_wanted: int = 6, seed: int = 0, timeout: float = 300.0
) -> Verdict:
    """The same of samples drawn for the graph (`eqsat.tensor.samples`), against the reference model. Raises WorkerError where Vela refuses
    the graph, or the model does, and TosaError where it cannot be read."""
    drawn = samples(domains(loads(buffer, "the graph")), samples_wanted, seed)
    answers = run_samples(buffer, drawn, via, timeout)
    kept = [(x, a) for x, a in zip(drawn, answers, strict=True) if not isinstance(a, WorkerError)]
    if not kept:
        return Verdict(None, "the reference model runs the graph on no sample")
    return check(buffer, target, via, [x for x, _ in kept], [a for _, a in kept], timeout)
