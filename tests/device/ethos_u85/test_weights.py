"""Weights come back out of what Vela encodes, for every core and both decoders; biases and scales out of records."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.binary import compile_binary
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.operands import Convolution
from eqsat.device.core.registers import WeightFormat, WeightSparsity
from eqsat.device.core.weight_stream import Order, scales
from eqsat.device.ethos_u85 import execution as module
from eqsat.device.ethos_u85.execution import weights, weights_of
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from tests.term import inputs, outputs

FEW, MANY, SPARSE = np.arange(-2, 2), np.arange(-127, 128), np.arange(-50, 50)


def product(values: np.ndarray, dtype: str, stride: int, depthwise: bool) -> TensorGraph:
    out, height, width, depth = values.shape
    (x,) = inputs(f"x:{dtype}[1,{height + 4},{width + 4},{out if depthwise else depth}]")
    w = x.const(values.transpose(1, 2, 0, 3) if depthwise else values, "INT8")
    bias = x.const(np.arange(out), "INT32" if dtype == "INT8" else "INT48")
    attrs = makers.conv(dtype, stride=(stride, stride))
    y = x.made("depthwise_conv2d" if depthwise else "conv2d", attrs, w, bias)
    return outputs(y.rescale(dtype, 1 << 14, 24, scale32=False))


def decoded(
    values: np.ndarray, dtype: str, stride: int, depthwise: bool, target: Target, worker: Worker
) -> tuple[Convolution, np.ndarray]:
    """The first convolution of a binary, and the weights of all of them."""
    binary = compile_binary(dumps(product(values, dtype, stride, depthwise)), target, worker)
    memory = MemoryMap(1, {0: len(binary.read_only)}, 0)
    memory.region(0)[...] = np.frombuffer(binary.read_only, np.uint8)
    found = [c for c in binary.commands() if isinstance(c, Convolution)]
    return found[0], np.concatenate([weights_of(c, binary.config.core, memory) for c in found])


@pytest.mark.parametrize("macs", [128, 256, 512, 1024, 2048])
@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
@pytest.mark.parametrize(
    "shape, stride, depthwise",
    [
        *(((70, 1, 1, 150), 1, False), ((20, 3, 3, 5), 2, False), ((9, 5, 4, 40), 1, False), ((33, 1, 9, 3), 1, False)),
        *(((40, 3, 3, 1), 1, True), ((12, 2, 5, 1), 2, True), ((70, 4, 6, 1), 1, True)),
    ],
)
def test_order(shape: tuple[int, ...], stride: int, depthwise: bool, dtype: str, macs: int, worker: Worker) -> None:
    values = np.random.default_rng(0).choice(MANY, shape).astype(np.int8)
    _, found = decoded(values, dtype, stride, depthwise, Target.of(f"ethos-u85-{macs}"), worker)
    assert np.array_equal(found, values)


@pytest.mark.parametrize("values", [FEW, MANY, np.arange(8)], ids=["few", "many", "sixteen at most"])
@pytest.mark.parametrize("standard", [False, True])
@pytest.mark.parametrize("target", ["ethos-u85-256", "ethos-u85-512"])
def test_both_decoders(target: str, standard: bool, values: np.ndarray, worker: Worker) -> None:
    chosen = np.random.default_rng(0).choice(values, (64, 3, 2, 100)).astype(np.int8)
    flags = (*Target.of(target).flags, *["--disable-fwd"] * standard)
    c, found = decoded(chosen, "INT8", 1, False, Target.from_flags(flags), worker)
    assert c.format == (WeightFormat.SWD if standard else WeightFormat.FWD)
    assert np.array_equal(found, chosen)


def test_two_of_four(worker: Worker) -> None:
    chosen = np.random.default_rng(0).choice(SPARSE, (64, 1, 1, 256)).astype(np.int8)
    chosen[..., np.arange(256) % 4 > 1] = 0
    c, found = decoded(chosen, "INT8", 1, False, Target.of("ethos-u85-256"), worker)
    assert c.sparsity == WeightSparsity.SPARSE_2_4
    assert np.array_equal(found, chosen)


def test_what_is_missing_is_named() -> None:
    order = Order((16, 1, 1, 64), (1, 1), 16, 8, 64, 64, 8, 1)
    header = bytearray(32)
    header[0] = 1
    with pytest.raises(DeviceError, match="64 weights in a stream that should have 1024"):
        weights((bytes(header) + bytes(64),), order, fast=True)
    with pytest.raises(DeviceError, match="2 streams for the fast decoder"):
        weights((bytes(96), bytes(96)), order, fast=True)
    with pytest.raises(DeviceError, match="4 bytes of weights"):
        module._fast(bytes(4))


@pytest.mark.parametrize(
    "wide, row", [(False, (-(1 << 31), (1 << 31) - 1, 63)), (True, (-(1 << 47), (1 << 15) - 1, 5))]
)
def test_records(wide: bool, row: tuple[int, int, int]) -> None:
    bias, multiplier, shift = row
    split = 6 if wide else 4
    record = (bias & (1 << 8 * split) - 1).to_bytes(split, "little") + multiplier.to_bytes(8 - split, "little")
    found = scales(((record + bytes([shift, 0])) * 2,), 2, split, 8)
    told = found.bias.tolist(), found.multiplier.tolist(), found.shift.tolist()
    assert told == ([bias] * 2, [multiplier] * 2, [shift] * 2)
    with pytest.raises(DeviceError, match="biases and scales for 3 channels"):
        scales((record * 2,), 3, split, 8)
