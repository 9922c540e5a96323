"""Binaries of Ethos-U85 executed, against the TOSA reference model; and errors planted in them, which must show."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.binary import Binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.run import Device
from eqsat.device.verification import Verdict, verify
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import run_samples
from tests.device.ethos_u85.pieces import PIECES, Piece
from tests.device.graphs import compiled
from tests.device.test_run import with_word

U85 = Target.of("ethos-u85-256")
CASES = [pytest.param(p, d, id=f"{p.name}-{d}") for p in PIECES for d in p.dtypes]
BY_NAME = {p.name: p for p in PIECES}


@pytest.mark.parametrize("piece, dtype", CASES)
def test_every_operator_computes_what_the_reference_does(piece: Piece, dtype: str, worker: Worker) -> None:
    assert verify(dumps(piece.graph(dtype)), U85, worker, 6) == Verdict(True, "", 6)


@pytest.mark.parametrize("target", ["ethos-u85-128", "ethos-u85-512", "ethos-u85-2048"])
@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
@pytest.mark.parametrize("name", ["convolution_1x1", "convolution_strided", "depthwise", "matrices"])
def test_weights_of_every_core(name: str, dtype: str, target: str, worker: Worker) -> None:
    assert verify(dumps(BY_NAME[name].graph(dtype)), Target.of(target), worker, 3) == Verdict(True, "", 3)


def known(graph: TensorGraph, worker: Worker) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Inputs and outputs of six samples, by the reference model."""
    drawn = samples(domains(graph), 6, 0)
    answers = [a for a in run_samples(dumps(graph), drawn, worker) if not isinstance(a, WorkerError)]
    assert len(answers) == len(drawn)
    return [np.stack(x) for x in zip(*drawn, strict=True)], [np.stack(w) for w in zip(*answers, strict=True)]


def equal(binary: Binary, inputs: list[np.ndarray], want: list[np.ndarray]) -> bool:
    got = Device(binary).run(inputs)
    return all(np.array_equal(y.view(w.dtype).reshape(w.shape), w) for y, w in zip(got, want, strict=True))


def flipped(binary: Binary, name: str, at: int) -> Binary:
    """With a bit of the constants changed, `at` bytes behind where the first such instruction says."""
    found = next(i for i in binary.instructions() if i.name == name)
    data = bytearray(binary.read_only)
    data[found.fields["addr"] + at] ^= 4
    return replace(binary, read_only=bytes(data))


PLANTED: dict[str, tuple[str, Callable[[Binary], Binary]]] = {
    "a bit of a bias": ("convolution_1x1", lambda b: flipped(b, "SET_SCALE_BASE", 1)),
    "a bit of a scale": ("convolution_1x1", lambda b: flipped(b, "SET_SCALE_BASE", 7)),
    "a bit of the weights": ("convolution_1x1", lambda b: flipped(b, "SET_WEIGHT_BASE", 60)),
    "the order of weights": ("convolution_strided", lambda b: with_word(b, "SET_KERNEL_STRIDE", lambda v: v ^ 4)),
    "padding": ("convolution_strided", lambda b: with_word(b, "SET_IFM_PAD_LEFT", lambda v: v - 1)),
    "a micro block": ("convolution_1x1", lambda b: with_word(b, "SET_ACC_FORMAT", lambda v: v ^ 0x300)),
    "the zero point of an operand": ("matrices", lambda b: with_word(b, "SET_IFM2_ZERO_POINT", lambda v: v + 1)),
    "a transposition": ("transpose_0213", lambda b: with_word(b, "SET_OFM_PRECISION", lambda v: v ^ 0x800)),
    "a reversal": ("reverse_2", lambda b: with_word(b, "SET_OFM_PRECISION", lambda v: v & ~0x600)),
    "a clamp": ("chain", lambda b: with_word(b, "SET_ACTIVATION_MAX", lambda v: 20, -1)),
    "a chaining buffer": ("chain", lambda b: with_word(b, "SET_OFM_REGION", lambda v: v + 3)),
    "a shift": ("sums_of_broadcasts", lambda b: with_word(b, "SET_OFM_SCALE", lambda v: v + 1, -1)),
    "a broadcast": ("sums_of_broadcasts", lambda b: with_word(b, "SET_IFM2_BROADCAST", lambda v: v ^ 4)),
    "a table": ("table_after_a_convolution", lambda b: flipped(b, "SET_DMA0_SRC", 128)),
    "an index": ("chosen_rows", lambda b: flipped(b, "SET_DMA0_IDX", 4)),
    "an offset": ("resize_between", lambda b: with_word(b, "SET_RESIZE_X_OFFSET", lambda v: v + 1)),
}


@pytest.mark.parametrize("error", PLANTED)
def test_a_planted_error_is_caught(error: str, worker: Worker) -> None:
    name, plant = PLANTED[error]
    piece = BY_NAME[name]
    graph = piece.graph(piece.dtypes[0])
    binary = compiled(dumps(graph), U85, worker)
    inputs, want = known(graph, worker)
    assert equal(binary, inputs, want)
    with contextlib.suppress(DeviceError):  # what is not run at all is caught too
        assert not equal(plant(binary), inputs, want)


UNKNOWN: dict[str, tuple[str, Callable[[Binary], Binary], str]] = {
    "three tiles in a row": (
        "chain",
        lambda b: with_word(b, "SET_IFM_PRECISION", lambda v: v | 0x4000),
        "does not know IFM in TILE3X1",
    ),
    "another decomposition": (
        "convolution_1x1",
        lambda b: with_word(b, "SET_KERNEL_STRIDE", lambda v: v | 0x20),
        "does not know D4X4",
    ),
    "an average with a scale": (
        "average_padded",
        lambda b: with_word(b, "SET_OFM_SCALE", lambda v: v + 1),
        "average that is scaled",
    ),
    "accumulators of nothing": (
        "convolution_1x1",
        lambda b: with_word(b, "SET_ACC_FORMAT", lambda v: v | 0x10),
        "were not kept",
    ),
    "the hardware's own tanh": (
        "table_of_shorts",
        lambda b: with_word(b, "SET_ACTIVATION", lambda v: v & ~0x1F | 10),
        "activation LUT_TANH",
    ),
    "a number of another register": (
        "convolution_1x1",
        lambda b: with_word(b, "SET_ACC_FORMAT", lambda v: v | 0x700),
        "unknown microblock 7",
    ),
}


@pytest.mark.parametrize("what", UNKNOWN)
def test_what_is_not_known_is_named(what: str, worker: Worker) -> None:
    name, plant, said = UNKNOWN[what]
    graph = BY_NAME[name].graph(BY_NAME[name].dtypes[0])
    binary = compiled(dumps(graph), U85, worker)
    with pytest.raises(DeviceError, match=said):
        Device(plant(binary)).run([np.stack(x) for x in zip(*samples(domains(graph), 2, 0), strict=True)])
