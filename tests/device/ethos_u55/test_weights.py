"""Weights come back out of what Vela's older compiler (in its wheel) encodes; biases and scales out of records."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ethosu import mlw_codec

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Accumulators, Activation, Block, Convolution, Element, FeatureMap, Kernel, Output
from eqsat.device.core.registers import ActivationFormat, IfmUpscaleMode, KernelDecomposition, WeightOrder
from eqsat.device.core.weight_stream import scales
from eqsat.device.ethos_u55.execution import order_of, weights
from eqsat.device.ethos_u55.registers import AccFormat, ActivationClipRange, ActivationFunction, RoundMode
from eqsat.target.family import U55
from eqsat.tensor.types import Shape
from tests.sweeps import some


def convolution(
    shape: Shape, depthwise: bool, part_kernel: bool, dilation: tuple[int, int], block: int, bits: int
) -> Convolution:
    """A convolution with weights of a shape."""
    out, height, width, depth = shape
    m = FeatureMap(0, (0,) * 4, 1, 1, 1, 0, 0, 0, ActivationFormat.NHWC, Element(True, bits), 0, 1, 1, depth)
    none = Activation(ActivationFunction.RELU, ActivationClipRange.OFM_PRECISION, 0, 0)
    return Convolution(
        offset=0,
        depthwise=depthwise,
        ifm=m,
        output=Output((1, 1, out), None, None, RoundMode.NATURAL, none),
        kernel=Kernel(height, width, (1, 1), dilation, 0, 0, 0, 0),
        upscale=IfmUpscaleMode.NONE,
        order=WeightOrder(part_kernel),
        decomposition=KernelDecomposition.D8X8,
        weights=(),
        scales=(),
        accumulators=Accumulators(AccFormat.I32),
        block=Block((1, 1, block), 0),
    )


#: Convolutions, and the output channels of a micro block.
ORDERS = [
    (convolution(shape, depthwise, part_kernel, dilation, block, bits), micro)
    for shape in ((20, 3, 3, 40), (7, 1, 1, 5), (33, 9, 2, 17), (8, 1, 12, 8))
    for depthwise, part_kernel in ((False, False), (False, True), (True, False))
    for micro, block in ((4, 8), (8, 16), (8, 40))
    for bits in (8, 16)
    for dilation in ((1, 1), (2, 1), (2, 2))
]


@pytest.mark.parametrize("c, micro", some(random.Random(0).sample(ORDERS, len(ORDERS)), 72))
def test_order(c: Convolution, micro: int) -> None:
    order = order_of(c, next(core for core in U55.cores.values() if core.micro[0][2] == micro))
    values = np.random.default_rng(0).integers(-255, 256, order.shape).astype(np.int16)
    edges = (8 // d for d in order.dilation)
    how = (c.depthwise, c.is_part_kernel_first, c.ifm.element.bits, *edges)
    encoded, _ = mlw_codec.reorder_encode(8, micro, values, order.block, *how)
    assert np.array_equal(weights((bytes(encoded),), order), values)
    with pytest.raises(DeviceError, match="weights in a stream that should have"):
        weights((bytes(encoded),), replace(order, shape=(order.shape[0] * 9, *order.shape[1:])))


def record(bias: int, multiplier: int, shift: int) -> bytes:
    return (bias & (1 << 40) - 1).to_bytes(5, "little") + multiplier.to_bytes(4, "little") + bytes([shift])


def test_records_of_two_cores_take_turns() -> None:
    rows = [(-(1 << 39), 1, 0), (5, (1 << 32) - 1, 63), (-1, 7, 31), (1 << 38, 1 << 30, 5), (0, 2, 1)]
    streams = tuple(b"".join(record(*r) for r in rows[core::2]) + bytes(6) for core in range(2))
    found = scales(streams, len(rows), 5, 9)
    assert list(zip(found.bias.tolist(), found.multiplier.tolist(), found.shift.tolist(), strict=True)) == rows
    with pytest.raises(DeviceError, match="biases and scales for 6 channels"):
        scales(streams, 11, 5, 9)
