"""Binaries executed, against the TOSA reference model; and errors planted in them, which must show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from eqsat.cli.app import app
from eqsat.device.binary import Binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import Device, run
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.tosa.reference import run_samples
from tests.device.graphs import PIECES, compiled, convolution, of, transposition

SAMPLES = 8


def inputs_of(graph: TensorGraph, samples: int = SAMPLES, seed: int = 0) -> list[np.ndarray]:
    """Random, [samples, ...] for each input."""
    rng = np.random.default_rng(seed)
    types = [graph.type(n) for n in graph.inputs]
    return [rng.integers(-128, 128, (samples, *t.shape)).astype(np.int8) for t in types]


def expected(graph: TensorGraph, inputs: list[np.ndarray], worker: Worker) -> list[np.ndarray]:
    """By the reference model."""
    answers = run_samples(dumps(graph), [[x[k] for x in inputs] for k in range(len(inputs[0]))], worker)
    kept = [a for a in answers if not isinstance(a, WorkerError)]
    assert len(kept) == len(answers)
    return [np.stack(values) for values in zip(*kept, strict=True)]


def differing(binary: Binary, inputs: list[np.ndarray], want: list[np.ndarray]) -> list[int]:
    got = Device(binary).run(inputs)
    return [k for k, (y, w) in enumerate(zip(got, want, strict=True)) if not np.array_equal(y.reshape(w.shape), w)]


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
    binary = compiled(dumps(graph), Target.of(target), worker)
    assert differing(binary, inputs, expected(graph, inputs, worker)) == []


def with_word(binary: Binary, name: str, change: Callable[[int], int], nth: int = 0) -> Binary:
    """The binary with the parameter of the nth such instruction changed."""
    found = [i for i in binary.instructions() if i.name == name][nth]
    at = len(binary.stream) - 4 * sum(1 + i.layout.long for i in binary.instructions()) + found.offset
    word = int.from_bytes(binary.stream[at : at + 4], "little")
    changed = word & 0xFFFF | (change(word >> 16) & 0xFFFF) << 16
    return replace(binary, stream=binary.stream[:at] + changed.to_bytes(4, "little") + binary.stream[at + 4 :])


def flipped(binary: Binary, at: int, bit: int = 2) -> Binary:
    data = bytearray(binary.read_only)
    data[at] ^= 1 << bit
    return replace(binary, read_only=bytes(data))


PLANTED: dict[str, Callable[[Binary], Binary]] = {
    "a bit of a bias": lambda b: flipped(b, 0),
    "a bit of a scale": lambda b: flipped(b, 7),
    "a bit of the weights": lambda b: flipped(b, 40 * 10 + 60),
    "a zero point": lambda b: with_word(b, "SET_OFM_ZERO_POINT", lambda v: v + 1),
    "the zero point of the input": lambda b: with_word(b, "SET_IFM_ZERO_POINT", lambda v: v + 1),
    "a stride of the kernel": lambda b: with_word(b, "SET_KERNEL_STRIDE", lambda v: v ^ 4),
    "padding": lambda b: with_word(b, "SET_IFM_PAD_LEFT", lambda v: 0),
    "a rounding": lambda b: with_word(b, "SET_OFM_PRECISION", lambda v: v ^ 0xC000),
    "a clamp": lambda b: with_word(b, "SET_ACTIVATION_MAX", lambda v: 20),
    "a number of input channels": lambda b: with_word(b, "SET_IFM_DEPTH_M1", lambda v: v - 1),
}


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-512"])
@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_caught(error: str, target: str, worker: Worker) -> None:
    graph = of(convolution)
    inputs = inputs_of(graph)
    binary = compiled(dumps(graph), Target.of(target), worker)
    want = expected(graph, inputs, worker)
    assert differing(binary, inputs, want) == []
    with contextlib.suppress(DeviceError):  # what is not run at all is caught too
        assert differing(PLANTED[error](binary), inputs, want) == [0]


@pytest.mark.parametrize(
    "name, change",
    [
        ("SET_ACTIVATION_MAX", lambda v: 20),
        ("SET_OFM_ZERO_POINT", lambda v: v + 1),
        ("SET_OFM_SCALE", lambda v: v + 1),
        ("SET_IFM_UPSCALE", lambda v: 1),
        ("SET_OFM_WIDTH_M1", lambda v: v - 1),
    ],
)
def test_an_error_in_a_transposition_is_caught(name: str, change: Callable[[int], int], worker: Worker) -> None:
    """Poolings that only copy take a short way."""
    graph = of(transposition)
    inputs = inputs_of(graph)
    binary = compiled(dumps(graph), Target.of("ethos-u55-128"), worker)
    want = expected(graph, inputs, worker)
    assert differing(binary, inputs, want) == []
    assert differing(with_word(binary, name, change), inputs, want) == [0]


def test_a_window_over_nothing_but_padding_is_named(worker: Worker) -> None:
    """Vela 5.1 makes such poolings of some transpositions in five axes."""
    graph = of(convolution)
    binary = compiled(dumps(graph), Target.of("ethos-u55-128"), worker)
    with pytest.raises(DeviceError, match="nothing but padding"):
        Device(with_word(binary, "SET_IFM_PAD_TOP", lambda v: 127)).run(inputs_of(graph))


def test_swapped_strides_are_caught(worker: Worker) -> None:
    graph = of(convolution)
    inputs = inputs_of(graph)
    binary = compiled(dumps(graph), Target.of("ethos-u55-128"), worker)
    stream = bytearray(binary.stream)
    by_name = {i.name: i for i in binary.instructions()[::-1]}
    start = len(stream) - 4 * sum(1 + i.layout.long for i in binary.instructions())
    x, y = (start + by_name[f"SET_IFM_STRIDE_{axis}"].offset + 4 for axis in "XY")
    stream[x : x + 4], stream[y : y + 4] = stream[y : y + 4], stream[x : x + 4]
    assert differing(replace(binary, stream=bytes(stream)), inputs, expected(graph, inputs, worker)) == [0]


def test_the_command_runs_a_file(worker: Worker, tmp_path: Path) -> None:
    from executorch.backends.arm.arm_vela import vela_compile

    graph, target = of(convolution), Target.of("ethos-u55-128")
    (x,) = inputs_of(graph, 1)
    (tmp_path / "payload").write_bytes(vela_compile(dumps(graph), list(target.flags)).processed_bytes)
    np.savez(tmp_path / "x.npz", x=x[0])
    arguments = ["run", str(tmp_path / "payload"), "--inputs", str(tmp_path / "x.npz"), "-o", str(tmp_path / "y.npz")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    (want,) = expected(graph, [x], worker)
    assert np.array_equal(np.load(tmp_path / "y.npz")["y0"].reshape(want.shape), want)
    drawn = CliRunner().invoke(app, [*arguments[:2], "--random", "1", "-o", str(tmp_path / "random.npz")])
    assert drawn.exit_code == 0 and "x0 int8[1, 1, 1, 15, 15, 8], y0" in " ".join(drawn.output.split()), drawn.output
    found = np.load(tmp_path / "random.npz")
    (want,) = expected(graph, [found["x0"].reshape(x[:1].shape)], worker)
    assert np.array_equal(found["y0"].reshape(want.shape), want) and found["x0"].min() < -100 < 100 < found["x0"].max()
    neither = CliRunner().invoke(app, [*arguments[:2], "-o", str(tmp_path / "y.npz")])
    assert neither.exit_code == 2 and "either --inputs FILE.npz or --random SEED" in " ".join(neither.output.split())
    np.savez(tmp_path / "x.npz", x=x[0, 0])
    np.savez(tmp_path / "x.npz", x=x[0, :, :3])
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2 and "input 0 is [1, 1, 1, 15, 15, 8] of 1 byte(s)" in " ".join(done.output.split())


def test_a_sample_alone_is_the_sample_among_others(worker: Worker) -> None:
    graph = of(*PIECES)
    inputs = inputs_of(graph)
    binary = compiled(dumps(graph), Target.of("ethos-u55-128"), worker)
    together = Device(binary).run(inputs)
    alone = run(binary, [x[3] for x in inputs])
    assert all(np.array_equal(y[3], a) for y, a in zip(together, alone, strict=True))
