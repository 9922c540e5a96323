"""Weights come back out of what Vela's older compiler, which is in its wheel, encodes; biases and scales out of their
records."""

from __future__ import annotations

import numpy as np
import pytest
from ethosu import mlw_codec

from eqsat.device.core.errors import DeviceError
from eqsat.device.ethos_u55.weights import Order, scales, weights


@pytest.mark.parametrize("dilation", [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("micro, block", [(4, 8), (8, 16), (8, 40)])
@pytest.mark.parametrize("depthwise, part_kernel", [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("shape", [(20, 3, 3, 40), (7, 1, 1, 5), (33, 9, 2, 17), (8, 1, 12, 8)])
def test_order(
    shape: tuple[int, int, int, int],
    depthwise: bool,
    part_kernel: bool,
    micro: int,
    block: int,
    bits: int,
    dilation: tuple[int, int],
) -> None:
    out, height, width, depth = shape
    shape = (out, height, width, 1 if depthwise else depth)
    values = np.random.default_rng(0).integers(-255, 256, shape).astype(np.int16)
    encoded, _ = mlw_codec.reorder_encode(
        8, micro, values, block, depthwise, part_kernel, bits, 8 // dilation[0], 8 // dilation[1]
    )
    order = Order(shape, depthwise, part_kernel, dilation, block, micro, bits, cores=1)
    assert np.array_equal(weights((bytes(encoded),), order), values)
    with pytest.raises(DeviceError, match="weights in a stream that should have"):
        weights(
            (bytes(encoded),), Order((out * 9, *shape[1:]), depthwise, part_kernel, dilation, block, micro, bits, 1)
        )


def record(bias: int, multiplier: int, shift: int) -> bytes:
    return (bias & (1 << 40) - 1).to_bytes(5, "little") + multiplier.to_bytes(4, "little") + bytes([shift])


def test_records_of_two_cores_take_turns() -> None:
    rows = [(-(1 << 39), 1, 0), (5, (1 << 32) - 1, 63), (-1, 7, 31), (1 << 38, 1 << 30, 5), (0, 2, 1)]
    streams = tuple(b"".join(record(*r) for r in rows[core::2]) + bytes(6) for core in range(2))
    found = scales(streams, len(rows))
    assert list(zip(found.bias.tolist(), found.multiplier.tolist(), found.shift.tolist(), strict=True)) == rows
    with pytest.raises(DeviceError, match="biases and scales for 6 channels"):
        scales(streams, 11)
