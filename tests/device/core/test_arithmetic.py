"""Scaling with every rounding against exact integers, also where a product has no room in 64 bits."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.core.arithmetic import scale
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import Rounding
from eqsat.device.ethos_u55.registers import RoundMode


def exactly(value: int, multiplier: int, shift: int, rounding: Rounding, double: int) -> int:
    """double: the first of two roundings is to 2**(31 - double); there is none for smaller shifts."""
    product, half = value * multiplier, 1 << shift >> 1
    extra = 1 << 30 - double if shift > 31 - double else 0
    match rounding:
        case Rounding.NATURAL:
            return product + half >> shift
        case Rounding.SYMMETRIC:
            return product + half >> shift if value >= 0 else -(-product + half >> shift)
        case Rounding.TRUNCATE_TO_ZERO:
            return product >> shift if value >= 0 else -(-product >> shift)
        case Rounding.TRUNCATE_TO_LOWER:
            return product >> shift
        case Rounding.DOUBLE_SYMMETRIC:
            return product + half + (extra if value >= 0 else -extra) >> shift
        case Rounding.DOUBLE_ASYMMETRIC:
            return product + half + extra >> shift


@pytest.mark.parametrize("bits", [8, 20, 31, 39, 60])
@pytest.mark.parametrize("double", [0, 4])
@pytest.mark.parametrize("rounding", Rounding)
def test_scaling_is_exact(rounding: Rounding, double: int, bits: int) -> None:
    drawn = np.random.default_rng(bits).integers(-(1 << bits), 1 << bits, 200)
    values = np.array([*range(-40, 41), -(1 << 31), (1 << 31) - 1, *drawn])
    for shift in (0, 1, 7, 20, 31, 32, 33, 40, 45, 62):
        for multiplier in (1, 3, min((1 << shift) * 5 // 4, 1 << 31), (1 << 30) + 77, (1 << 31) + 1, (1 << 32) - 1):
            want = [exactly(int(v), multiplier, shift, rounding, double) for v in values]
            try:
                assert scale(values, multiplier, shift, rounding, double).tolist() == want
            except DeviceError as e:
                assert "beyond 62 bits" in str(e) and max(map(abs, want)) >= 1 << 60


def test_roundings_of_u55_are_those() -> None:
    rules = Rounding.NATURAL, Rounding.TRUNCATE_TO_ZERO, Rounding.DOUBLE_SYMMETRIC
    assert [m.rule for m in (RoundMode.NATURAL, RoundMode.TRUNCATE, RoundMode.DBL)] == [*rules]
