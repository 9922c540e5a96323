"""Compiled models as fuzzed formats: raw outputs of Vela, delegates' payloads and .pte files, read and run as
`eqsat run` does."""

from __future__ import annotations

import io
import random
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from eqsat.ground.files import InputError
from eqsat.ground.packed import unpack_arrays
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from tests.device.graphs import PIECES, of
from tests.fuzzing.mutate import BLIND, mutated
from tests.fuzzing.outcome import Finding, error_class

TARGETS = ("ethos-u55-128", "ethos-u85-256")
#: Of one file: seconds, MiB. What needs more is a finding.
_LIMITS = Limits(20.0, 1500.0)
_NUMBERS = (-1, 0, 1, 3, 1 << 16, 1 << 31, 1 << 45, (1 << 63) - 1, -(1 << 63))


def write_raw(place: Path) -> None:
    """Vela's own, of every kind of command."""
    source = place.parent / "graph.tosa"
    source.write_bytes(dumps(of(*PIECES)))
    for target in TARGETS:
        made = place.parent / target
        vela = [Path(sys.executable).parent / "vela", *Target.of(target).flags, f"--output-dir={made}", source]
        subprocess.run(vela, check=True, capture_output=True)
        (place / f"{target}.npz").write_bytes((made / "graph_vela.npz").read_bytes())


def damage_raw(r: random.Random, corpus: Sequence[bytes]) -> tuple[bytes, str]:
    """Blindly one time in four; else within an array, since a checksum tells of the others."""
    if r.randrange(4) == 0:
        return mutated(r, corpus, BLIND)
    arrays = unpack_arrays(r.choice(corpus), lambda name: not name.endswith("quantization"))
    name = r.choice(sorted(arrays))
    array, how = _damaged(r, arrays[name])
    if array is None:
        del arrays[name]
    else:
        arrays[name] = array
    out = io.BytesIO()
    np.savez_compressed(out, **arrays)
    return out.getvalue(), how


def _damaged(r: random.Random, array: np.ndarray) -> tuple[np.ndarray | None, str]:
    kind = r.randrange(6)
    if kind == 0:
        return r.choice((None, np.array("abc"), array.reshape(-1)[:-1], np.zeros(0), np.array(1e300))), "meaning"
    if kind == 1 and array.dtype.kind in "iu":
        changed = array.astype(np.int64).reshape(-1)
        changed[r.randrange(len(changed))] = r.choice(_NUMBERS)
        return changed.reshape(array.shape), "meaning"
    data, how = mutated(r, [array.tobytes() or b"\0"], BLIND)
    return np.frombuffer(data[: len(data) // array.itemsize * array.itemsize], array.dtype), how


def write_payloads(place: Path) -> None:
    from executorch.backends.arm.arm_vela import vela_compile

    for target in TARGETS:
        payload = vela_compile(dumps(of(*PIECES)), list(Target.of(target).flags)).processed_bytes
        (place / target).write_bytes(payload)


def write_programs(place: Path) -> None:
    """Two delegates are one too many, so a program has one."""
    import torch
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    import eqsat
    from eqsat.executorch.quantize import quantize
    from eqsat.options.options import Options

    torch.manual_seed(0)
    for target in TARGETS:
        spec = EthosUCompileSpec(target)
        program = quantize(torch.nn.Conv2d(2, 3, 1), (torch.randn(1, 2, 4, 4),), spec)
        edge, _ = eqsat.lower_with_session(program, spec, options=Options(effort=0))
        (place / f"{target}.pte").write_bytes(edge.to_executorch().buffer)


def read(data: bytes, _: Path) -> str:
    """Printed, and run on inputs as the sound files have them."""
    from eqsat.device.core.errors import DeviceError
    from eqsat.executorch.binaries import disassembled, ran

    program = data[4:6] == b"ET"
    inputs = [np.zeros(32, np.int8)] if program else _inputs()
    try:
        disassembled(data, _worker())
        ran(data, inputs, _worker(), _LIMITS)
    except (DeviceError, InputError) as e:
        if isinstance(e.__cause__, WorkerError) and (e.__cause__.refused or e.__cause__.stopped):
            raise Finding(str(e)) from None
        return str(e) if isinstance(e.__cause__, WorkerError) else error_class(e)
    return "accepted"


@cache
def _inputs() -> list[np.ndarray]:
    graph = of(*PIECES)
    return [np.zeros(graph.type(n).shape, np.int8) for n in graph.inputs]


@cache
def _worker() -> Worker:
    return Worker()
