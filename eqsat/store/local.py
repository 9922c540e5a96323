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

#: Bytes of one entry: more is none of ours.
LARGEST = 64 << 20
#: Bytes of the checksum of an entry.
MARK = 16
#: Part of a limit that is dropped at once when it is passed, so that this is rare.
_SPARE = 0.1
#: Microseconds for which a use is not noted again: reading stays reading.
_FRESH = 6 * 3600 * 10**6
#: How often, and after how many seconds, a file that another process is making is tried again.
_TRIES, _PAUSE = 20, 0.05
#: Keys of one query: SQLite takes 999 parameters, or more.
_AT_ONCE = 500
#: What sqlite3 raises; its messages quote a damaged schema, which may be no text.
FAILURES: tuple[type[Exception], ...] = (sqlite3.Error, UnicodeDecodeError)
_TABLE = "create table if not exists entries (key text primary key, value blob not null, mark blob not null, used integer not null)"


@dataclass(frozen=True, slots=True)
class Kind:
    """Entries of one kind: how many are kept, and of how many bytes in all (0: bytes are not counted)."""

    name: str
    entries: int
    bytes: int = 0

    def key(self, name: str) -> str:
        return f"{self.name}:{name}"

    def range(self, prefix: str = "") -> tuple[str, str]:
        """The first key of the names that begin so, and what no longer is one."""
        start = self.key(prefix)
        return start, start[:-1] + chr(ord(start[-1]) + 1)


def mark(key: str, value: bytes) -> bytes:
    """The checksum of an entry: of its key, too, so that one in another's place is none."""
    return hashlib.blake2b(key.encode(errors="replace") + b"\0" + value, digest_size=MARK).digest()


def is_valid(key: object, value: object, checksum: object) -> bool:
    """Whether a row is an entry as it was written."""
    return isinstance(key, str) and isinstance(value, bytes) and len(value) <= LARGEST and checksum == mark(key, value)


class LocalStore:
    """Bytes by key. Any failure of the disk costs only the store: reads give nothing, writes are dropped, and `failure`
    says why."""

    def __init__(self, path: Path) -> None:
        self.path, self.failure = path, ""
        self._db: sqlite3.Connection | None = None
        with self._noting(OSError, InputError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = self._open()

    @contextlib.contextmanager
    def _noting(self, *more: type[Exception]) -> Iterator[None]:
        """What fails within costs only the store; the first failure is kept."""
        failures: tuple[type[Exception], ...] = (*FAILURES, *more)
        try:
            yield
        except failures as e:
            self.failure = self.failure or str(getattr(e, "strerror", None) or e)

    def _open(self) -> sqlite3.Connection:
        for left in reversed(range(_TRIES)):
            check_file(self.path)
            try:
                return self._connect()
            except sqlite3.OperationalError as e:  # in use or not writable: not ours to throw away
                if "locked" not in str(e) or not left:
                    raise
                time.sleep(_PAUSE)  # another process turns it to WAL, which does not wait by itself
            except (sqlite3.DatabaseError, UnicodeDecodeError):
                self.path.unlink(missing_ok=True)  # damaged: everything can be computed again
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.path, timeout=10, check_same_thread=False)
        try:
            db.text_factory = lambda raw: raw.decode(errors="replace")  # a damaged key is no key
            db.execute("pragma trusted_schema=off")
            db.execute("pragma journal_mode=wal")
            db.execute("pragma synchronous=normal")  # what a crash of the machine loses is computed again
            db.execute(_TABLE)
            db.execute("select count(*) from entries").fetchone()
        except BaseException:
            db.close()
            raise
        return db

    def get(self, keys: Sequence[str]) -> dict[str, bytes]:
        """The entries that are there; notes their use, and drops what is damaged."""
        found: dict[str, bytes] = {}
        for i in range(0, len(keys), _AT_ONCE):
            part = keys[i : i + _AT_ONCE]
            found.update(self._read(f"key in ({','.join('?' * len(part))})", part))
        return found

    def range(self, first: str, end: str) -> dict[str, bytes]:
        """All from one key to before another, in their order."""
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
        """Remembers entries of one kind, and forgets those of it that were not used for the longest time beyond its
        limits."""
        if self._db is None or not entries:
            return
        now = time.time_ns() // 1000
        rows = [(k, v, mark(k, v), now) for k, v in entries.items() if len(v) <= LARGEST]
        with self._noting(), self._db:
            self._db.executemany("insert or replace into entries values (?, ?, ?, ?)", rows)
            self._keep(self._db, *kind.range(), kind.entries, kind.bytes)

    def keep(self, first: str, end: str, entries: int) -> None:
        """Forgets all in a range of keys but those that were used last."""
        if self._db is not None:
            with self._noting(), self._db:
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
        """(entries of a kind, bytes of their values)."""
        found = (0, 0)
        with contextlib.suppress(*FAILURES):
            if self._db is not None:
                query = "select count(*), total(length(value)) from entries where key >= ? and key < ?"
                count, size = self._db.execute(query, kind.range()).fetchone()
                found = (int(count), int(size))
        return found

    def bytes(self) -> int:
        """On disk, with what SQLite has beside the file."""
        with contextlib.suppress(OSError):
            return sum(p.stat().st_size for p in self.path.parent.glob(f"{self.path.name}*"))
        return 0

    def clear(self) -> None:
        """Forgets everything."""
        if self._db is not None:
            with contextlib.suppress(*FAILURES):
                with self._db:
                    self._db.execute("delete from entries")
                self._db.execute("vacuum")
                self._db.execute("pragma wal_checkpoint(truncate)")

    def seal(self) -> None:
        """Makes the file one that is whole without those that SQLite has beside it."""
        if self._db is not None:
            with self._noting():
                self._db.execute("pragma journal_mode=delete")

    def close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
