"""Words that are no instructions have errors that name them."""

from __future__ import annotations

import pytest

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.instructions import instructions
from eqsat.device.ethos_u55.registers import LAYOUTS


@pytest.mark.parametrize(
    "words, said",
    [
        ([0x0000_0104, 0x0000_03FF], "unknown command 0x000003ff at byte 4"),
        ([0x0000_8104], "unknown command"),
        ([0x0000_4010], "ends inside SET_OFM_BASE0"),
        ([0x0003_0107], "SET_IFM_UPSCALE at byte 0: unknown mode 3"),
        ([0x0012_0107], "SET_IFM_UPSCALE at byte 0: unknown bits 0x10"),
        ([0x0005_0125], "unknown activation_function 5"),
    ],
)
def test_what_there_is_not_is_named(words: list[int], said: str) -> None:
    with pytest.raises(DeviceError, match=said):
        list(instructions(words, LAYOUTS))
