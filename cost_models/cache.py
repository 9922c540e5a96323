"""Prices on disk: an SQLite table, safe with several processes, whose entries are numbers and never code.

Keys say everything that a price depends on, versions of tools included (the models make them). Every entry carries a
checksum of key and price: one that was damaged or written by somebody else is dropped when it is read. Beyond its limit
the cache forgets what was not used for the longest time.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import sqlite3
import struct
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from eqsat.files import InputError

#: Entries that a cache keeps; 100 bytes each on disk, more or less.
LIMIT = 400_000
#: Part of the limit that is dropped at once when it is passed, so that this is rare.
_SPARE = 0.1
#: Seconds for which a use is not noted again: reading stays reading.
_FRESH = 6 * 3600
#: How often, and after how many seconds, a file that another process is making is tried again.
_TRIES, _PAUSE = 20, 0.05
#: How every SQLite database begins that is not empty (sqlite.org/fileformat.html).
_MAGIC = b"SQLite format 3\0"
#: What sqlite3 raises; its messages quote a damaged schema, which may be no text.
_FAILURES: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
_TABLE = "create table if not exists checked (key text primary key, cycles real not null, mark blob not null, used integer not null)"


def default_path() -> Path:
    """`EQSAT_CACHE` or the user's cache directory."""
    return Path(os.environ.get("EQSAT_CACHE") or platformdirs.user_cache_dir("eqsat")) / "prices.sqlite"


def check_place(path: Path) -> None:
    """Refuses a file that is something else: it is neither written to nor replaced. Raises InputError."""
    with contextlib.suppress(OSError), path.open("rb") as f:
        if (head := f.read(len(_MAGIC))) and head != _MAGIC:
            raise InputError(f"{path} is no file of prices: choose another place for the cache, or remove it")


@dataclass(frozen=True, slots=True)
class Info:
    """What `eqsat cache info` shows: entries, the limit on them, bytes on disk; failure: why it cannot be used, "" if
    it can."""

    path: Path
    entries: int
    limit: int
    bytes: int
    failure: str


def _mark(key: str, cycles: float) -> bytes:
    return hashlib.blake2b(key.encode() + struct.pack("<d", cycles), digest_size=8).digest()


def _valid(key: object, cycles: object, mark: object) -> bool:
    return (
        isinstance(key, str) and isinstance(cycles, float) and 0 <= cycles < float("inf") and mark == _mark(key, cycles)
    )


def _count(db: sqlite3.Connection) -> int:
    return int(db.execute("select count(*) from checked").fetchone()[0])


class PriceCache:
    """Key -> cycles. Any failure of the disk costs only the cache: reads give nothing, writes are dropped, and
    `failure` says why. Raises InputError where a file is given that is something else."""

    def __init__(self, path: str | Path | None = None, limit: int = LIMIT):
        self.path, self.limit = Path(path) if path else default_path(), limit
        self.failure = ""
        self._db: sqlite3.Connection | None = None
        if path:
            check_place(self.path)
        with self._noting(OSError, InputError):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open()

    @contextlib.contextmanager
    def _noting(self, *more: type[Exception]) -> Iterator[None]:
        """What fails within costs only the cache; the first failure is kept."""
        failures: tuple[type[Exception], ...] = (*_FAILURES, *more)
        try:
            yield
        except failures as e:
            self.failure = self.failure or str(getattr(e, "strerror", None) or e)

    def _open(self) -> sqlite3.Connection:
        for left in reversed(range(_TRIES)):
            check_place(self.path)
            try:
                return self._connect()
            except sqlite3.OperationalError as e:  # in use or not writable: not ours to throw away
                if "locked" not in str(e) or not left:
                    raise
                time.sleep(_PAUSE)  # another process turns it to WAL, which does not wait by itself
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self.path.unlink(missing_ok=True)  # corrupted: prices can always be measured again
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
        try:
            db.text_factory = lambda raw: raw.decode(errors="replace")  # a damaged key is no key
            db.execute("pragma journal_mode=wal")
            db.execute("pragma synchronous=normal")  # what a crash of the machine loses is measured again
            db.execute(_TABLE)
            db.execute("select count(*) from checked").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    def get(self, keys: Sequence[str]) -> dict[str, float]:
        """The prices that are known."""
        out: dict[str, float] = {}
        if self._db:
            with contextlib.suppress(*_FAILURES):
                self._read(self._db, keys, out)
        return out

    @staticmethod
    def _read(db: sqlite3.Connection, keys: Sequence[str], out: dict[str, float]) -> None:
        """Adds to `out` what is found, notes its use and drops what is damaged."""
        wrong: list[str] = []
        stale: list[str] = []
        now = int(time.time())
        for i in range(0, len(keys), 500):
            part = keys[i : i + 500]
            marks = ",".join("?" * len(part))
            query = f"select key, cycles, mark, used from checked where key in ({marks})"
            for key, cycles, mark, used in db.execute(query, part):
                if not _valid(key, cycles, mark):
                    wrong.append(key)
                    continue
                out[key] = cycles
                if not isinstance(used, int) or abs(now - used) > _FRESH:
                    stale.append(key)
        if wrong or stale:
            with db:
                db.executemany("delete from checked where key = ?", [(k,) for k in wrong])
                db.executemany("update checked set used = ? where key = ?", [(now, k) for k in stale])

    def put(self, prices: Mapping[str, float]) -> None:
        """Remembers prices; what is no number of cycles is left out."""
        now = int(time.time())
        rows = [(k, float(v), _mark(k, float(v)), now) for k, v in prices.items()]
        rows = [r for r in rows if _valid(*r[:3])]
        if self._db and rows:
            with self._noting(), self._db:
                self._db.executemany("insert or replace into checked values (?, ?, ?, ?)", rows)
                self._forget(self._db)

    def _forget(self, db: sqlite3.Connection) -> None:
        excess = _count(db) - self.limit
        if excess > 0:
            drop = excess + int(_SPARE * self.limit)
            db.execute("delete from checked where key in (select key from checked order by used limit ?)", (drop,))

    def info(self) -> Info:
        entries = size = 0
        with contextlib.suppress(OSError, *_FAILURES):
            entries = _count(self._db) if self._db else 0
            size = sum(p.stat().st_size for p in self.path.parent.glob(f"{self.path.name}*"))
        return Info(self.path, entries, self.limit, size, self.failure)

    def clear(self) -> int:
        """Forgets everything; the number of entries that there were."""
        entries = self.info().entries
        if self._db:
            with contextlib.suppress(*_FAILURES):
                with self._db:
                    self._db.execute("delete from checked")
                self._db.execute("vacuum")
                self._db.execute("pragma wal_checkpoint(truncate)")
        return entries

    def close(self) -> None:
        if self._db:
            self._db.close()
            self._db = None
