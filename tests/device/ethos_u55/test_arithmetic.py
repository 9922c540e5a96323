"""Clamps and tables against their definitions."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.numbers import NumberMachine
from eqsat.device.core.operands import Activation, Element
from eqsat.device.ethos_u55.execution import Execution
from eqsat.device.ethos_u55.registers import ActivationClipRange, ActivationFunction
from eqsat.target.family import U55

INT8, INT16, INT32 = Element(True, 8), Element(True, 16), Element(True, 32)
RELU, TABLE = ActivationFunction.RELU, ActivationFunction.TABLE_0
OWN = ActivationClipRange.OFM_PRECISION
activated = Execution(U55.cores["ethos-u55-128"], NumberMachine(1, {}, 0)).activate


@pytest.mark.parametrize(
    "clip, element, low, high, want",
    [
        (OWN, INT8, -5, 7, [-5, -5, 7]),
        (OWN, Element(False, 8), 0, 200, [0, 0, 200]),
        (OWN, INT32, -5, 7, [-300, -5, 300]),  # 32 bits are clamped only where it is forced
        (ActivationClipRange.FORCE_INT8, INT32, -128, 127, [-128, -5, 127]),
        (ActivationClipRange.FORCE_INT16, INT32, -200, 250, [-200, -5, 250]),
        (ActivationClipRange.FORCE_UINT8, INT16, 0, 255, [0, 0, 255]),
    ],
)
def test_clamps(clip: ActivationClipRange, element: Element, low: int, high: int, want: list[int]) -> None:
    activation = Activation(RELU, clip, low & 0xFFFF, high & 0xFFFF)
    assert activated(np.array([-300, -5, 300]), activation, element, None).tolist() == want


def test_tables_of_8_bits_are_read_from_the_lowest_value_on() -> None:
    table = np.arange(256).astype(np.uint8).tobytes()
    activation = Activation(TABLE, OWN, 0xFF80, 0x007F)
    assert activated(np.array([-128, 0, 127]), activation, INT8, table).view(np.uint8).tolist() == [0, 128, 255]


def test_tables_of_16_bits_interpolate() -> None:
    entries = np.zeros((512, 2), np.int16)
    entries[:, 0], entries[:, 1] = np.arange(512) * 100 - 25600, 100
    activation = Activation(TABLE, OWN, 0x8000, 0x7FFF)
    values = np.array([-32768, -32768 + 64, 0, 1, 127, 128])
    want = [-25600, -25550, 0, 1, 99, 100]
    assert activated(values, activation, INT16, entries.tobytes()).tolist() == want


@pytest.mark.parametrize(
    "value, activation, element, table, said",
    [
        (1, Activation(ActivationFunction.TANH, OWN, 0x8000, 0x7FFF), INT8, None, "TANH"),
        (1, Activation(TABLE, ActivationClipRange.FORCE_INT16, 0x8000, 0x7FFF), INT32, bytes(2048), "results of 32"),
        (1 << 40, Activation(RELU, OWN, 0x8000, 0x7FFF), INT32, None, "int32 has no room"),
        (1, Activation(RELU, OWN, 9, 8), INT8, None, "a clamp to 9 to 8"),
    ],
    ids=["function", "table of words", "no room", "clamp that leaves nothing"],
)
def test_what_is_not_known_or_has_no_result_is_named(
    value: int, activation: Activation, element: Element, table: bytes | None, said: str
) -> None:
    with pytest.raises(DeviceError, match=said):
        activated(np.array([value]), activation, element, table)
