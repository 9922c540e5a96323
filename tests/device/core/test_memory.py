"""Feature maps where the registers say they lie: rows, bricks, tiles, steps; and nothing outside memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.core.errors import DeviceFault
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.operands import ByteRange, Element, FeatureMap
from eqsat.device.core.registers import ActivationFormat

ROWS = FeatureMap(
    region=1,
    bases=(8, 0, 0, 0),
    height0=3,
    height1=3,
    width0=4,
    stride_y=4 * 20,
    stride_x=20,
    stride_c=1,
    format=ActivationFormat.NHWC,
    element=Element(True, 8),
    zero_point=0,
    height=3,
    width=4,
    depth=20,
)
#: The same tensor in bricks of 16 channels.
BRICKS = replace(ROWS, format=ActivationFormat.NHCWB16, stride_y=2 * 4 * 16, stride_x=16, stride_c=4 * 16)


@pytest.fixture
def memory() -> MemoryMap:
    return MemoryMap(2, {0: 4, 1: 1024}, 16)


@pytest.fixture
def values() -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, (2, 3, 4, 20)).astype(np.int8)


def test_rows(memory: MemoryMap, values: np.ndarray) -> None:
    memory.write(ROWS, values)
    assert np.array_equal(memory.region(1)[:, 8 : 8 + 240].view(np.int8).reshape(2, 3, 4, 20), values)
    assert np.array_equal(memory.read(ROWS), values)


def test_bricks(memory: MemoryMap, values: np.ndarray) -> None:
    before = memory.region(1).copy()
    memory.write(BRICKS, values)
    assert np.array_equal(memory.read(BRICKS), values)
    bricks = memory.region(1)[:, 8 : 8 + 384].view(np.int8).reshape(2, 3, 2, 4, 16)
    assert np.array_equal(bricks[:, :, 0], values[..., :16])
    assert np.array_equal(bricks[:, :, 1, :, :4], values[..., 16:])
    unwritten = before[:, 8 : 8 + 384].view(np.int8).reshape(bricks.shape)
    assert np.array_equal(bricks[:, :, 1, :, 4:], unwritten[:, :, 1, :, 4:])


def test_what_nothing_has_written_is_not_zero(memory: MemoryMap) -> None:
    assert memory.read(ROWS).all() and memory.read(BRICKS).all()


@pytest.mark.parametrize("whole", [ROWS, BRICKS])
def test_tiles_are_parts_of_the_whole(whole: FeatureMap, memory: MemoryMap, values: np.ndarray) -> None:
    """Split behind the first column, and its two sides behind the second and the first row."""
    memory.write(whole, values)
    base, y, x = whole.bases[0], whole.stride_y, whole.stride_x
    tiles = replace(whole, bases=(base, base + x, base + 2 * y, base + x + y), width0=1, height0=2, height1=1)
    assert np.array_equal(memory.read(tiles), values)
    memory.write(tiles, values[::-1])
    assert np.array_equal(memory.read(whole), values[::-1])


def test_steps_may_go_backwards(memory: MemoryMap, values: np.ndarray) -> None:
    memory.write(replace(ROWS, bases=(8 + 2 * 80, 0, 0, 0), stride_y=-80), values)
    assert np.array_equal(memory.read(ROWS), values[:, ::-1])


@pytest.mark.parametrize(
    "outside",
    [
        replace(ROWS, bases=(1024 - 239, 0, 0, 0)),
        replace(ROWS, stride_y=-80),
        replace(ROWS, region=0),
        replace(ROWS, stride_y=480),
        replace(BRICKS, stride_c=1024),
    ],
)
def test_outside_memory_is_a_fault(outside: FeatureMap, memory: MemoryMap) -> None:
    with pytest.raises(DeviceFault, match="bytes .* of region"):
        memory.read(outside)


def test_there_are_only_the_regions_that_there_are(memory: MemoryMap) -> None:
    with pytest.raises(DeviceFault, match="no region 5"):
        memory.constant(ByteRange(5, 0, 1))
    with pytest.raises(DeviceFault, match="region 0"):
        memory.constant(ByteRange(0, 3, 2))
