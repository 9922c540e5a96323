"""Every rounding against the exact quotient, and what has no room or no meaning."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np
import pytest

from eqsat.device.core.arithmetic import scaled
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, Element
from eqsat.device.core.registers import Rounding
from eqsat.device.ethos_u85.arithmetic import activated, table_place
from eqsat.device.ethos_u85.commands import Activation
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction

INT8, INT16, INT32 = (Element(True, n) for n in (8, 16, 32))
HALF = Fraction(1, 2)
EXACT = {
    Rounding.NATURAL: lambda q: floor(q + HALF),
    Rounding.SYMMETRIC: lambda q: floor(abs(q) + HALF) * (1 if q >= 0 else -1),
    Rounding.TRUNCATE_TO_ZERO: int,
    Rounding.TRUNCATE_TO_LOWER: floor,
}


@pytest.mark.parametrize("rounding", EXACT)
@pytest.mark.parametrize("shift", [0, 1, 7, 40])
def test_rounding(rounding: Rounding, shift: int) -> None:
    values = [*range(-40, 41), -(1 << 31), (1 << 31) - 1]
    got = scaled(np.array(values), (1 << shift) * 5 // 4 or 1, shift, rounding)
    assert got.tolist() == [EXACT[rounding](Fraction(v * ((1 << shift) * 5 // 4 or 1), 1 << shift)) for v in values]


@pytest.mark.parametrize("shift, double, first", [(40, 0, 31), (40, 4, 27), (31, 0, 0)])
def test_double_rounding(shift: int, double: int, first: int) -> None:
    """To 2**first, a half up, or down below zero, and then to the end; not at all up to where the first begins."""
    values = np.random.default_rng(0).integers(-(1 << 20), 1 << 20, 200)
    got = scaled(values, (1 << 30) + 77, shift, Rounding.DOUBLE_SYMMETRIC, double)
    extra = 1 << first - 1 if first else 0
    products = [int(v) * ((1 << 30) + 77) for v in values]
    assert got.tolist() == [(p + (extra if p >= 0 else -extra) + (1 << shift - 1)) >> shift for p in products]
    upwards = scaled(values, (1 << 30) + 77, shift, Rounding.DOUBLE_ASYMMETRIC, double)
    assert upwards.tolist() == [(p + extra + (1 << shift - 1)) >> shift for p in products]


def act(function: ActivationFunction, low: int = 0x8000, high: int = 0x7FFF, table: int = 0) -> Activation:
    return Activation(function, table, ActivationClipRange.B16, low, high)


def test_tables_lie_one_behind_the_other() -> None:
    assert table_place(act(ActivationFunction.LUT_NONE)) is None
    assert table_place(act(ActivationFunction.LUT_S8_S8, table=5)) == ByteRange(None, 5 * 256, 256)
    assert table_place(act(ActivationFunction.LUT_S8_S32, table=1)) == ByteRange(None, 1024, 1024)
    assert table_place(act(ActivationFunction.LUT_S16_S16)) == ByteRange(None, 0, 2048)
    with pytest.raises(DeviceError, match="LUT_TANH"):
        table_place(act(ActivationFunction.LUT_TANH))


def test_a_table_of_shorts_is_interpolated() -> None:
    entries = np.stack([np.arange(512) * 3 - 700, np.arange(512) % 7 - 3], 1).astype(np.int16)
    values = np.array([-(1 << 15), -1, 0, 1, 12345])
    places = values + (1 << 15)
    exact = [(int(entries[p >> 7, 0]) << 7) + int(entries[p >> 7, 1]) * (int(p) & 127) for p in places]
    fine = activated(values, act(ActivationFunction.LUT_S16_S32), INT32, entries.tobytes())
    assert fine.tolist() == exact
    short = activated(values, act(ActivationFunction.LUT_S16_S16), INT16, entries.tobytes())
    assert short.tolist() == [(e + 64) >> 7 for e in exact]


@pytest.mark.parametrize(
    "values, activation, element, said",
    [
        ([300], Activation(ActivationFunction.LUT_NONE, 0, ActivationClipRange.NONE, 0, 0), INT8, "int8 has no room"),
        ([3], act(ActivationFunction.LUT_NONE, 9, 8), INT8, "a clamp to 9 to 8"),
        ([3], act(ActivationFunction.LUT_S8_S8), INT16, "LUT_S8_S8 with results of int16"),
    ],
)
def test_what_has_no_room_or_meaning_is_named(
    values: list[int], activation: Activation, element: Element, said: str
) -> None:
    with pytest.raises(DeviceError, match=said):
        activated(np.array(values), activation, element, None)
