"""Prices that were measured before, in the store (`eqsat/store`).

A key contains all that a price depends on, versions of tools included; the models make the keys.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

from eqsat.store.store import PRICES, Store


class PriceCache:
    """A cache {key: cycles}.

    Any failure of the store costs only the cache: reads find nothing, writes are dropped.
    The constructor raises InputError if `place` is given and is something else.
    """

    def __init__(self, place: str | Path | None = None) -> None:
        self.store = Store(place)

    def get(self, keys: Sequence[str]) -> dict[str, float]:
        """Returns the prices that are known."""
        found = {k: struct.unpack("<d", raw)[0] for k, raw in self.store.get(PRICES, keys).items() if len(raw) == 8}
        return _prices(found)

    def put(self, prices: Mapping[str, float]) -> None:
        """Remembers prices, without those that are no number of cycles."""
        self.store.put(PRICES, {k: struct.pack("<d", v) for k, v in _prices(prices).items()})

    def close(self) -> None:
        self.store.close()


def _prices(found: Mapping[str, float]) -> dict[str, float]:
    """Returns those that are a number of cycles."""
    return {k: v for k, v in found.items() if 0 <= v < math.inf}
