"""Whether the binary that Vela makes of a graph computes what the graph does.

The binary runs on the functional model, the graph on the TOSA reference model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.device.binary import Binary, binary_of
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.run import Device
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor.graph import TensorGraph, find_unread, unpredictable
from eqsat.tensor.types import Array
from eqsat.tosa.reference import pack, unpack
from eqsat.vela.regor import RawOutput


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on a binary.

    equal: whether all outputs equal the reference's, bit for bit.
    It is None if the binary did not run on every sample, or if there was nothing to compare with.
    reason: why equal is False or None.
    samples: number of samples that were compared.
    """

    equal: bool | None
    reason: str = ""
    samples: int = 0


def run_raw(raw: RawOutput, inputs: bytes) -> list[dict[str, Any]]:
    """Returns `outputs_of` a binary; a worker calls it."""
    return outputs_of(binary_of(raw), inputs)


def outputs_of(binary: Binary, inputs: bytes) -> list[dict[str, Any]]:
    """Runs a binary and returns one record for each sample (one without inputs).

    inputs: packed arrays, [samples, ...] each.
    A record has the packed outputs under "outputs", or the reason why there are none.
    The reason is a "fault", which no binary may have, or "unknown" to the model.
    """
    given = unpack(inputs)
    samples = len(given[0]) if given else 1
    try:
        device = Device(binary)
    except DeviceError as e:
        return [_why_none(e)] * samples
    return _run(device, given, samples)


def _run(device: Device, inputs: Sequence[Array], samples: int) -> list[dict[str, Any]]:
    """Returns the record of each sample; they run one by one if they cannot run together."""
    try:
        outputs = device.run(inputs)
    except DeviceError as e:
        if samples == 1:
            return [_why_none(e)]
        return [a for k in range(samples) for a in _run(device, [x[k : k + 1] for x in inputs], 1)]
    return [{"outputs": pack(y[k] for y in outputs)} for k in range(samples)]


def _why_none(e: DeviceError) -> dict[str, Any]:
    if isinstance(e, DeviceFault):
        return {"fault": str(e)}
    return {"unknown": f"the functional model cannot run it: {e}"}


def check(
    graph: TensorGraph,
    raw: RawOutput,
    via: Pool | Worker,
    inputs: Sequence[Sequence[Array]],
    expected: Callable[[], Sequence[Sequence[Array] | WorkerError]],
    timeout: float = 300.0,
) -> Verdict:
    """Runs the binary of a graph on samples and compares its outputs with the expected ones.

    inputs: the graph's inputs for each sample.
    expected: returns its outputs for each, or why there are none; called after the binary ran.
    timeout: seconds. Raises what `expected` raises.
    """
    lost = find_unread(graph)  # which Vela leaves out
    stacked = pack(np.stack(xs) for k, xs in enumerate(zip(*inputs, strict=True)) if k not in lost)
    try:
        answers = via.call(run_raw, raw, stacked, limits=Limits(timeout))
    except WorkerError as e:
        if e.refused or e.killed or e.stopped:
            return Verdict(None, str(e))
        return Verdict(None, f"the functional model does not survive the binary: {e}")
    if len(lost) == len(graph.inputs):
        answers *= len(inputs)
    every = zip(inputs, answers, expected(), strict=True)
    kept = [(x, a, want) for x, a, want in every if not isinstance(want, WorkerError)]
    if not kept:
        return Verdict(None, "the reference model runs the graph on no sample")
    inputs, answers, wanted = zip(*kept, strict=True)
    return judge_samples(graph, answers, inputs, wanted)


def judge_samples(
    graph: TensorGraph,
    answers: Sequence[Mapping[str, Any]],
    inputs: Sequence[Sequence[Array]],
    expected: Sequence[Sequence[Array]],
) -> Verdict:
    """Returns the verdict on a binary's record for each sample (`outputs_of`).

    A sample counts if its outputs are as expected or if TOSA determines what they are.
    """
    samples = [
        (a, want)
        for x, a, want in zip(inputs, answers, expected, strict=True)
        if "outputs" in a and not _difference([unpack(a["outputs"])], [want]) or not unpredictable(graph, x)
    ]
    if not samples:
        return Verdict(None, f"TOSA leaves open what the graph gives on all of {len(inputs)} samples")
    if fault := next((a for a, _ in samples if "fault" in a), None):
        return Verdict(False, fault["fault"], len(samples))
    ran = [(unpack(a["outputs"]), want) for a, want in samples if "outputs" in a]
    unknown = [a["unknown"] for a, _ in samples if "unknown" in a]
    if ran and (outputs := len(ran[0][0])) != len(expected[0]):
        lost = outputs < len(set(graph.outputs))
        return Verdict(False if lost else None, f"its binary has only {outputs} of {len(expected[0])} outputs")
    if reason := _difference([y for y, _ in ran], [want for _, want in ran]):
        return Verdict(False, reason, len(ran))
    if unknown:
        return Verdict(None, f"{unknown[0]} (on {len(unknown)} of {len(samples)} samples)", len(ran))
    return Verdict(True, "", len(ran))


def _difference(got: Sequence[Sequence[Array]], expected: Sequence[Sequence[Array]]) -> str:
    """Returns where the outputs of samples differ, or ""."""
    for slot, (ys, ws) in enumerate(zip(zip(*got, strict=True), zip(*expected, strict=True), strict=False)):
        y, w = np.stack(ys), np.stack(ws)
        if y[0].nbytes != w[0].nbytes:
            return f"output {slot} has {y[0].nbytes} bytes instead of {w[0].nbytes}"
        y = np.ascontiguousarray(y).view(w.dtype).reshape(w.shape)
        if not np.array_equal(y, w):
            far = np.abs(y.astype(np.float64) - w.astype(np.float64))
            return f"output {slot} differs in {np.count_nonzero(far)} of {far.size} elements, by up to {far.max():g}"
    return ""
