"""Saved networks, compiled, run and compared, with the time and memory of the run."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.device.records import VELA, Record, about
from eqsat.bench.log import Log
from eqsat.device.compile import binary_of, raw_of
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.ethos_u55.commands import Convolution
from eqsat.device.ethos_u85 import commands as ethos_u85
from eqsat.device.run import Device
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.samples import domains, samples
from eqsat.tosa.flatbuffer import loads
from eqsat.tosa.model import packed, unpacked
from eqsat.tosa.reference import run_samples
from eqsat.vela.compile import compile_tosa
from eqsat.vela.regor import RawOutput

#: Samples on which a binary runs.
_SAMPLES = 4


def run(log: Log, place: Path, targets: Sequence[str]) -> None:
    """Adds the records of the saved networks that are for one of the targets."""
    with Pool(1) as via:
        for path in sorted(place.glob("*.tosa")):
            name = next((t for t in targets if f".{t}." in path.name), None)
            if name is None or (VELA, path.name) in log.records:
                continue
            try:
                record = _network(path.read_bytes(), Target.of(name), via)
            except WorkerError as e:
                record = {"outcome": "refused" if e.refused else "failed", "reason": " ".join(str(e).split())[:200]}
            log.add({"vela": VELA, "file": path.name, "target": name, **about(), **record})


def _network(buffer: bytes, target: Target, via: Pool) -> Record:
    """Returns the record of one network.

    Raises WorkerError if Vela refuses it.
    """
    drawn = samples(domains(loads(buffer, "the network")), _SAMPLES, 0)
    answers = run_samples(buffer, drawn, via)
    known = [(x, a) for x, a in zip(drawn, answers, strict=True) if not isinstance(a, WorkerError)]
    inputs, expected = ([np.stack(slot) for slot in zip(*side, strict=True)] for side in zip(*known, strict=True))
    compiled = raw_of(compile_tosa(buffer, target, via))
    with Worker() as fresh:  # The memory of a new worker is that of this network alone.
        found: Record = fresh.call(measured, compiled, packed(inputs), limits=Limits(300))
    if "outputs" not in found:
        return {"outcome": "differs" if found.pop("fault") else "not run", **found}
    got = unpacked(found.pop("outputs"))
    if len(got) != len(expected):
        return {"outcome": "differs", "reason": f"its binary has {len(got)} of {len(expected)} outputs"}
    wrong = [
        k
        for k, (y, w) in enumerate(zip(got, expected, strict=True))
        if not np.array_equal(y.view(w.dtype).reshape(w.shape), w)
    ]
    reason = f"output {wrong[0]} differs" if wrong else ""
    return {"outcome": "differs" if wrong else "equal", "reason": reason, "samples": len(known), **found}


def measured(compiled: RawOutput, inputs: bytes) -> Record:
    """Returns the outputs of a binary, and the time and memory of its run.

    If there are no outputs, it returns the "reason", and whether that is a "fault" of the binary.
    A process of its own calls it.
    The memory is that of the process, with Python and numpy.
    """
    try:
        device = Device(binary_of(compiled))
        xs = unpacked(inputs)
        started = time.perf_counter()
        outputs = device.run(xs)
    except DeviceError as e:
        return {"reason": str(e)[:200], "fault": isinstance(e, DeviceFault)}
    return {
        "outputs": packed(outputs),
        "seconds": round(time.perf_counter() - started, 3),
        "peak_mib": _peak_mib(),
        "commands": len(device.commands),
        "macs": sum(_macs(c) for c in device.commands if isinstance(c, Convolution | ethos_u85.Convolution)),
    }


def _peak_mib() -> int | None:
    """Returns the peak resident memory of this process in MiB, None if the system does not report it."""
    try:
        found = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return None
    return int(found[1]) >> 10 if found else None


def _macs(c: Convolution | ethos_u85.Convolution) -> int:
    """Returns the multiply-accumulate operations of a convolution."""
    return math.prod(c.output.shape) * c.kernel.height * c.kernel.width * (1 if c.depthwise else c.ifm.depth)
