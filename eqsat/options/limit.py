"""Limits on memory as users write them: 65536, "64K", "+4K", "5%", "-50%", "stock", "any"."""

from __future__ import annotations

import re
from typing import NamedTuple

from eqsat.ground.files import InputError

#: Limits that are not numbers: what "stock" allows (`AS_STOCK`), and no limit.
STOCK, ANY = "stock", "any"
#: Bytes of a unit, by its first letter.
_UNITS = {"K": 1 << 10, "M": 1 << 20}
_BYTES = re.compile(r"([0-9]+)|([0-9]+(?:\.[0-9]+)?)([KM])(?:i?B)?", re.IGNORECASE)
_SHARE = re.compile(r"(\+?[0-9]+(?:\.[0-9]+)?|-[0-9]{1,2}(?:\.[0-9]+)?)%")


class Growth(NamedTuple):
    """A limit relative to stock's graph: the larger of a share and a number of bytes more, or a share less.

    share: negative for less.
    earned: the share up to which more is allowed if cycles pay for it.
    """

    share: float = 0.0
    bytes: int = 0
    earned: float = 0.0


#: Bytes of SRAM that "stock" allows in any case: a recurrent network's stock graph takes 1 to 4 KiB.
SRAM_FLOOR = 16 << 10
#: Growth that "stock" allows, by the field of `Options`.
#: 1% of a small .pte is less than the commands of one more operator, hence 4 KiB.
AS_STOCK = {"max_sram": Growth(), "max_flash": Growth(0.01, 4 << 10, 0.05)}


def parse(given: int | str, field: str, called: str = "") -> int | Growth | None:
    """Returns a limit in bytes or relative to stock's graph; None: there is none.

    field: of `Options`. called: its name for the user, if that differs. Raises InputError.
    """
    text = str(given).strip()
    if text == ANY:
        return None
    if text == STOCK:
        return AS_STOCK[field]
    if share := _SHARE.fullmatch(text):
        return Growth(share=float(share[1]) / 100)
    if found := _BYTES.fullmatch(text.removeprefix("+")):
        plain, number, unit = found.groups()
        size = int(plain) if plain else int(float(number) * _UNITS[unit.upper()])
        return Growth(bytes=size) if text.startswith("+") else size
    raise InputError(
        f"{called or field} is {given!r}: give a number of bytes (65536, 64K, 1M), "
        f"how much more or less than stock's (+4K, 5%, -50%), {STOCK} or {ANY}"
    )
