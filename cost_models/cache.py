"""Prices that were measured before, in the store (`eqsat/store`).

A key contains all that a price depends on, versions of tools included; the models make the keys.
A team's store keeps the prices of keys that were asked for together as one batch.
The batch is stored under the name of all these keys.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

from eqsat.store.store import PRICES, Store, batch_name

#: Bytes of the prices of a batch, unpacked: a larger batch is not one of ours.
_LARGEST = 64 << 20


class PriceCache:
    """A cache {key: cycles}.

    Any failure of the store costs only the cache: reads find nothing, writes are dropped.
    The constructor raises InputError if `place` is given and is something else.
    """

    def __init__(self, place: str | Path | None = None) -> None:
        self.store = Store(place)
        self._asked: dict[str, float | None] = {}

    def get(self, keys: Sequence[str]) -> dict[str, float]:
        """Returns the prices that are known."""
        found = {k: v for k, raw in self.store.get(PRICES, keys).items() if (v := _price(raw)) is not None}
        if len(found) < len(set(keys)) and self.store.shared:
            fetched = _batch(self.store.fetch(PRICES, batch_name(set(keys))))
            new = {k: fetched[k] for k in keys if k in fetched and k not in found}
            self._keep(new)
            found |= new
        self._asked = {k: found.get(k) for k in keys}
        return found

    def put(self, prices: Mapping[str, float]) -> None:
        """Remembers prices, without those that are no number of cycles.

        If they complete the keys of the last `get`, the team's store gets all of these.
        """
        prices = {k: float(v) for k, v in prices.items() if 0 <= v < math.inf}
        self._keep(prices)
        if self.store.shared and any(k in prices for k, v in self._asked.items() if v is None):
            every = {k: v for k, old in self._asked.items() if (v := prices.get(k, old)) is not None}
            packed = zlib.compress(json.dumps(every, sort_keys=True).encode())
            self.store.publish(PRICES, batch_name(self._asked), packed)

    def _keep(self, prices: Mapping[str, float]) -> None:
        self.store.put(PRICES, {k: struct.pack("<d", v) for k, v in prices.items()})

    def close(self) -> None:
        self.store.close()


def _price(raw: bytes) -> float | None:
    """Returns the cycles of an entry, None for an entry that is no number of cycles."""
    if len(raw) != 8:
        return None
    cycles = float(struct.unpack("<d", raw)[0])
    return cycles if 0 <= cycles < math.inf else None


def _batch(raw: bytes | None) -> dict[str, float]:
    """Returns the prices of a batch, none if it has another form."""
    if raw is None:
        return {}
    unpacking = zlib.decompressobj()
    try:
        prices = json.loads(unpacking.decompress(raw, _LARGEST))
    except (zlib.error, ValueError, RecursionError):
        return {}
    if not isinstance(prices, dict):
        return {}
    return {k: v for k, v in prices.items() if isinstance(v, float) and 0 <= v < math.inf}
