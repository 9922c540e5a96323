"""Binaries executed, against the TOSA reference model; and errors planted in them, which must show."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from eqsat.device.binary import Binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import Device, run
from eqsat.device.verification import Verdict
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps
from eqsat.tosa.reference import run_samples
from tests import command
from tests.device.pieces import OF_U85, PIECES, Piece, compiled, convolution, of
from tests.device.planted import ERRORS, U55, U85, UNKNOWN, Planted
from tests.device.verify import verify

SAMPLES = 8


def inputs_of(graph: TensorGraph, count: int = SAMPLES) -> list[np.ndarray]:
    """[samples, ...] for each input."""
    return [np.stack(x) for x in zip(*samples(domains(graph), count, 0), strict=True)]


def expected(graph: TensorGraph, inputs: Sequence[np.ndarray], worker: Worker) -> list[np.ndarray]:
    """By the reference model."""
    answers = run_samples(dumps(graph), [[x[k] for x in inputs] for k in range(len(inputs[0]))], worker)
    kept = [a for a in answers if not isinstance(a, WorkerError)]
    assert len(kept) == len(answers)
    return [np.stack(values) for values in zip(*kept, strict=True)]


def is_equal(binary: Binary, inputs: list[np.ndarray], want: list[np.ndarray]) -> bool:
    got = Device(binary).run(inputs)
    return all(np.array_equal(y.view(w.dtype).reshape(w.shape), w) for y, w in zip(got, want, strict=True))


@pytest.mark.parametrize(
    "target",
    [
        *("ethos-u55-32", "ethos-u55-64", "ethos-u55-128", "ethos-u65-256", "ethos-u65-512"),
        *("ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048"),
    ],
)
def test_every_kind_of_command_computes_what_the_reference_does(target: str, worker: Worker) -> None:
    graph = of(*PIECES)
    inputs = inputs_of(graph)
    assert is_equal(compiled(dumps(graph), Target.of(target), worker), inputs, expected(graph, inputs, worker))


@pytest.mark.parametrize("piece, dtype", [pytest.param(p, d, id=f"{p.name}-{d}") for p in OF_U85 for d in p.dtypes])
def test_every_operator_of_u85_computes_what_the_reference_does(piece: Piece, dtype: str, worker: Worker) -> None:
    assert verify(dumps(piece.graph(dtype)), U85, worker, 6) == Verdict(True, "", 6)


@pytest.mark.parametrize("error", ERRORS, ids=str)
def test_a_planted_error_is_caught(error: Planted, worker: Worker) -> None:
    graph, binary, wrong = error.binaries(worker)
    inputs = inputs_of(graph)
    want = expected(graph, inputs, worker)
    assert is_equal(binary, inputs, want)
    with contextlib.suppress(DeviceError):  # what is not run at all is caught too
        assert not is_equal(wrong, inputs, want)


@pytest.mark.parametrize("error", UNKNOWN, ids=str)
def test_what_is_not_known_is_named(error: Planted, worker: Worker) -> None:
    graph, _, changed = error.binaries(worker)
    with pytest.raises(DeviceError, match=error.what):
        Device(changed).run(inputs_of(graph, 2))


def test_the_command_runs_a_file(worker: Worker, tmp_path: Path) -> None:
    from executorch.backends.arm.arm_vela import vela_compile

    graph, target = of(convolution), U55
    (x,) = inputs_of(graph, 1)
    (tmp_path / "payload").write_bytes(vela_compile(dumps(graph), list(target.flags)).processed_bytes)
    np.savez(tmp_path / "x.npz", x=x[0])
    arguments = ["run", tmp_path / "payload", "--inputs", tmp_path / "x.npz", "-o", tmp_path / "y.npz"]
    done = command.run(*arguments)
    assert done.exit_code == 0, done.output
    (want,) = expected(graph, [x], worker)
    assert np.array_equal(np.load(tmp_path / "y.npz")["y0"].reshape(want.shape), want)
    drawn = command.run(*arguments[:2], "--random", "1", "-o", tmp_path / "random.npz")
    assert drawn.exit_code == 0 and "x0 int8[1, 1, 1, 15, 15, 8], y0" in " ".join(drawn.output.split()), drawn.output
    found = np.load(tmp_path / "random.npz")
    (want,) = expected(graph, [found["x0"].reshape(x[:1].shape)], worker)
    assert np.array_equal(found["y0"].reshape(want.shape), want) and found["x0"].min() < -100 < 100 < found["x0"].max()
    neither = command.run(*arguments[:2], "-o", tmp_path / "y.npz")
    assert neither.exit_code == 2 and "either --inputs FILE.npz or --random SEED" in " ".join(neither.output.split())
    np.savez(tmp_path / "x.npz", x=x[0, :, :3])
    done = command.run(*arguments)
    assert done.exit_code == 2 and "input 0 is [1, 1, 1, 15, 15, 8] of 1 byte(s)" in " ".join(done.output.split())


def test_a_sample_alone_is_the_sample_among_others(worker: Worker) -> None:
    graph = of(*PIECES)
    inputs = inputs_of(graph)
    binary = compiled(dumps(graph), U55, worker)
    together = Device(binary).run(inputs)
    alone = run(binary, [x[3] for x in inputs])
    assert all(np.array_equal(y[3], a) for y, a in zip(together, alone, strict=True))
