"""Tables, and what has no room or no meaning."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.numbers import NumberMachine
from eqsat.device.core.operands import SAME, Activation, ByteRange, Element, Output
from eqsat.device.core.registers import Rounding
from eqsat.device.ethos_u85.execution import Execution
from eqsat.device.ethos_u85.registers import ActivationClipRange, ActivationFunction
from eqsat.target.family import U85

INT8, INT16, INT32 = (Element(True, n) for n in (8, 16, 32))
activated = Execution(U85.cores["ethos-u85-256"], NumberMachine(1, {}, 0)).activate


def act(function: ActivationFunction, low: int = 0x8000, high: int = 0x7FFF, table: int = 0) -> Activation:
    return Activation(function, ActivationClipRange.B16, low, high, table)


def place(activation: Activation) -> ByteRange | None:
    return Execution.table_place(Output((1, 1, 1), None, SAME, Rounding.NATURAL, activation), 2048)


def test_tables_lie_one_behind_the_other() -> None:
    assert place(act(ActivationFunction.LUT_NONE)) is None
    assert place(act(ActivationFunction.LUT_S8_S8, table=5)) == ByteRange(None, 5 * 256, 256)
    assert place(act(ActivationFunction.LUT_S8_S32, table=1)) == ByteRange(None, 1024, 1024)
    assert place(act(ActivationFunction.LUT_S16_S16)) == ByteRange(None, 0, 2048)
    with pytest.raises(DeviceError, match="LUT_TANH"):
        place(act(ActivationFunction.LUT_TANH))


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
        ([300], Activation(ActivationFunction.LUT_NONE, ActivationClipRange.NONE, 0, 0), INT8, "int8 has no room"),
        ([3], act(ActivationFunction.LUT_NONE, 9, 8), INT8, "a clamp to 9 to 8"),
        ([3], act(ActivationFunction.LUT_S8_S8), INT16, "LUT_S8_S8 with results of int16"),
    ],
)
def test_what_has_no_room_or_meaning_is_named(
    values: list[int], activation: Activation, element: Element, said: str
) -> None:
    with pytest.raises(DeviceError, match=said):
        activated(np.array(values), activation, element, None)
