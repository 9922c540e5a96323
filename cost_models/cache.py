"""Prices on disk: an SQLite table, safe with several processes, whose entries are numbers and never code."""
from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

import platformdirs


def default_path() -> Path:
    """`EQSAT_CACHE` or the user's cache directory."""
    return Path(os.environ.get("EQSAT_CACHE") or platformdirs.user_cache_dir("eqsat")) / "prices.sqlite"


class PriceCache:
    """Key -> cycles. Any failure of the disk costs only the cache: reads give nothing, writes are dropped."""

    def __init__(self, path: Path | None = None):
        self.path = path or default_path()
        self._db: sqlite3.Connection | None = None
        with contextlib.suppress(OSError, sqlite3.Error):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.OperationalError:
            raise                                        # in use or not writable: not ours to throw away
        except sqlite3.DatabaseError:
            self.path.unlink(missing_ok=True)            # corrupted: prices can always be measured again
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
        db.execute("pragma journal_mode=wal")
        db.execute("create table if not exists price (key text primary key, cycles real not null check (typeof(cycles) = 'real' and cycles >= 0))")
        db.execute("select count(*) from price").fetchone()
        return db

    def get(self, keys: Sequence[str]) -> dict[str, float]:
        out: dict[str, float] = {}
        with contextlib.suppress(sqlite3.Error):
            for i in range(0, len(keys) if self._db else 0, 500):
                part = keys[i: i + 500]
                marks = ",".join("?" * len(part))
                out.update(self._db.execute(f"select key, cycles from price where key in ({marks})", part))
        return out

    def put(self, prices: Mapping[str, float]) -> None:
        if self._db and prices:
            with contextlib.suppress(sqlite3.Error), self._db:
                self._db.executemany("insert or replace into price values (?, ?)", list(prices.items()))

    def close(self) -> None:
        if self._db:
            self._db.close()
            self._db = None
