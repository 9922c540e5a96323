"""A store on this machine: an SQLite table, safe with several processes and against a kill at any time."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eqsat.ground.files import InputError
from eqsat.store.setting import check_file

#: Bytes of one entry, at most; a larger one is not one of ours.
LARGEST = 64 << 20
#: Bytes of the checksum of an entry.
MARK = 16
#: Part of a limit that is dropped at once when it is exceeded, so that this is rare.
_SPARE = 0.1
#: Microseconds during which a use is not recorded again, so that reading rarely writes.
_FRESH = 6 * 3600 * 10**6
#: Keys of one query, at most: SQLite takes 999 parameters, or more.
_AT_ONCE = 500
#: Exceptions of sqlite3, whose messages quote a damaged schema, which may be no text.
FAILURES: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
_TABLE = (
    "create table if not exists entries "
    "(key text primary key, value blob not null, mark blob not null, used integer not null)"
)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of entries.

    entries: how many are kept
    bytes  : total size that is kept (0: bytes are not counted)
    """

    name: str
    entries: int
    bytes: int = 0

    def key(self, name: str) -> str:
        return f"{self.name}:{name}"

    def range(self, prefix: str = "") -> tuple[str, str]:
        """Returns the first key of the names with this prefix, and the first key after them."""
        start = self.key(prefix)
        return start, start[:-1] + chr(ord(start[-1]) + 1)


def mark(key: str, value: bytes) -> bytes:
    """Returns the checksum of an entry, which covers the key, too."""
    return hashlib.blake2b(key.encode(errors="replace") + b"\0" + value, digest_size=MARK).digest()


def is_valid(key: object, value: object, checksum: object) -> bool:
    """Whether a row is an entry that is unchanged since it was written."""
    return isinstance(key, str) and isinstance(value, bytes) and len(value) <= LARGEST and checksum == mark(key, value)


class LocalStore:
    """A store of bytes by key, in an SQLite file; after a failure reads find nothing, and writes are dropped.

    failure: the first failure in words, "" if there is none.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.failure = path, ""
        self._db: sqlite3.Connection | None = None
        with self._keeping_failure(OSError, InputError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open()

    @contextlib.contextmanager
    def _keeping_failure(self, *more: type[Exception]) -> Iterator[None]:
        """Within it failures of SQLite, and those in `more`, are not raised, and the first is kept in `failure`."""
        failures: tuple[type[Exception], ...] = (*FAILURES, *more)
        try:
            yield
        except failures as e:
            self.failure = self.failure or str(getattr(e, "strerror", None) or e)

    def _open(self) -> sqlite3.Connection:
        check_file(self.path)
        try:
            return self._connect()
        except sqlite3.OperationalError:  # in use or not writable: it must not be removed
            raise
        except (sqlite3.DatabaseError, UnicodeDecodeError):
            self.path.unlink(missing_ok=True)  # damaged: everything can be computed again
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
        try:
            db.text_factory = lambda raw: raw.decode(errors="replace")  # a damaged key is no key
            db.execute("pragma trusted_schema=off")
            db.execute("pragma synchronous=normal")  # entries lost in a crash are computed again
            db.execute(_TABLE)
            db.execute("select count(*) from entries").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """Returns the entries that exist; records their use, and drops damaged ones."""
        found: dict[str, bytes] = {}
        for i in range(0, len(keys), _AT_ONCE):
            part = keys[i : i + _AT_ONCE]
            found.update(self._read(f"key in ({','.join('?' * len(part))})", part))
        return found

    def range(self, first: str, end: str) -> dict[str, bytes]:
        """Returns all entries with first <= key < end, in the order of keys."""
        return dict(sorted(self._read("key >= ? and key < ?", (first, end)).items()))

    def _read(self, where: str, parameters: Sequence[str]) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        if self._db is None:
            return found
        wrong: list[tuple[str]] = []
        stale: list[tuple[int, str]] = []
        now = time.time_ns() // 1000
        query = f"select key, iif(length(value) <= {LARGEST}, value, null), mark, used from entries where {where}"
        with contextlib.suppress(*FAILURES):
            for key, value, checksum, used in self._db.execute(query, parameters):
                if not is_valid(key, value, checksum):
                    wrong.append((key,))
                    continue
                found[key] = value
                if not isinstance(used, int) or abs(now - used) > _FRESH:
                    stale.append((now, key))
            if wrong or stale:
                with self._db:
                    self._db.executemany("delete from entries where key = ?", wrong)
                    self._db.executemany("update entries set used = ? where key = ?", stale)
        return found

    def put(self, entries: Mapping[str, bytes], kind: Kind) -> None:
        """Stores entries of one kind; if it is over its limits, its least recently used entries are dropped."""
        if self._db is None or not entries:
            return
        now = time.time_ns() // 1000
        rows = [(k, v, mark(k, v), now) for k, v in entries.items() if len(v) <= LARGEST]
        with self._keeping_failure(), self._db:
            self._db.executemany("insert or replace into entries values (?, ?, ?, ?)", rows)
            self._keep(self._db, *kind.range(), kind.entries, kind.bytes)

    def keep(self, first: str, end: str, entries: int) -> None:
        """Drops all entries with first <= key < end but the `entries` that were used last."""
        if self._db is not None:
            with self._keeping_failure(), self._db:
                self._keep(self._db, first, end, entries, 0, 0.0)

    @staticmethod
    def _keep(db: sqlite3.Connection, first: str, end: str, most: int, size: int, spare: float = _SPARE) -> None:
        weight = "total(length(value))" if size else "0"
        count, total = db.execute(
            f"select count(*), {weight} from entries where key >= ? and key < ?", (first, end)
        ).fetchone()
        if count > most or (size and total > size):
            left = (int(most * (1 - spare)), size * (1 - spare) if size else float("inf"))
            db.execute(
                "delete from entries where key in (select key from (select key, row_number() over latest as place, "
                "sum(length(value)) over latest as total from entries where key >= ? and key < ? "
                "window latest as (order by used desc, key)) where place > ? or total > ?)",
                (first, end, *left),
            )

    def size(self, kind: Kind) -> tuple[int, int]:
        """Returns (entries of a kind, bytes of their values)."""
        found = (0, 0)
        with contextlib.suppress(*FAILURES):
            if self._db is not None:
                query = "select count(*), total(length(value)) from entries where key >= ? and key < ?"
                count, size = self._db.execute(query, kind.range()).fetchone()
                found = (int(count), int(size))
        return found

    def bytes(self) -> int:
        """Returns the bytes on disk."""
        with contextlib.suppress(OSError):
            return self.path.stat().st_size
        return 0

    def clear(self) -> None:
        """Drops all entries."""
        if self._db is not None:
            with contextlib.suppress(*FAILURES):
                with self._db:
                    self._db.execute("delete from entries")
                self._db.execute("vacuum")

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
