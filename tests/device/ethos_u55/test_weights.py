"""Weights come back out of what Vela's older compiler, which is in its wheel, encodes; biases and scales out of their
records."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from ethosu import mlw_codec

from eqsat.device.core.errors import DeviceError
from eqsat.device.ethos_u55.weights import Order, scales, weights
from tests.sweeps import some

ORDERS = [
    Order(shape, depthwise, part_kernel, dilation, block, micro, bits, cores=1)
    for shape in ((20, 3, 3, 40), (7, 1, 1, 5), (33, 9, 2, 17), (8, 1, 12, 8))
    for depthwise, part_kernel in ((False, False), (False, True), (True, False))
    for micro, block in ((4, 8), (8, 16), (8, 40))
    for bits in (8, 16)
    for dilation in ((1, 1), (2, 1), (2, 2))
]


@pytest.mark.parametrize("order", some(random.Random(0).sample(ORDERS, len(ORDERS)), 72))
def test_order(order: Order) -> None:
    out, height, width, depth = order.shape
    order = replace(order, shape=(out, height, width, 1 if order.depthwise else depth))
    values = np.random.default_rng(0).integers(-255, 256, order.shape).astype(np.int16)
    edges = (8 // d for d in order.dilation)
    encoded, _ = mlw_codec.reorder_encode(
        8, order.micro, values, order.block, order.depthwise, order.part_kernel, order.bits, *edges
    )
    assert np.array_equal(weights((bytes(encoded),), order), values)
    with pytest.raises(DeviceError, match="weights in a stream that should have"):
        weights((bytes(encoded),), replace(order, shape=(out * 9, *order.shape[1:])))


def record(bias: int, multiplier: int, shift: int) -> bytes:
    return (bias & (1 << 40) - 1).to_bytes(5, "little") + multiplier.to_bytes(4, "little") + bytes([shift])


def test_records_of_two_cores_take_turns() -> None:
    rows = [(-(1 << 39), 1, 0), (5, (1 << 32) - 1, 63), (-1, 7, 31), (1 << 38, 1 << 30, 5), (0, 2, 1)]
    streams = tuple(b"".join(record(*r) for r in rows[core::2]) + bytes(6) for core in range(2))
    found = scales(streams, len(rows))
    assert list(zip(found.bias.tolist(), found.multiplier.tolist(), found.shift.tolist(), strict=True)) == rows
    with pytest.raises(DeviceError, match="biases and scales for 6 channels"):
        scales(streams, 11)
