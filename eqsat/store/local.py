"""A store on this machine: an SQLite table, safe with several processes and against a kill at any time."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from eqsat.ground.files import InputError, is_special

# The place of the store, one setting: `EQSAT_CACHE`, `--cache` or `Options(cache=...)`.
#
# DIRECTORY, or FILE.sqlite       on this machine
# URL                             a shared store of fsspec besides the user's own: file://, https://, s3://, ...
# DIRECTORY,URL                   both
# DIRECTORY,read-only:URL         the shared store is never written to

#: The environment variable of the setting.
VARIABLE = "EQSAT_CACHE"
_READ_ONLY = "read-only:"
#: The name of the store in a directory, and the suffix of a place that is a file.
_FILE = "store.sqlite"
_SUFFIX = ".sqlite"
#: The first bytes of every SQLite database that is not empty (sqlite.org/fileformat.html).
_MAGIC = b"SQLite format 3\0"


#: The table of a store, and its columns.
TABLE, COLUMNS = "entries", ("key", "value", "mark", "used")
#: Bytes of a damaged database in which definitions of tables are looked for.
_HEAD = 1 << 16
_OTHER_TABLE = re.compile(rb"create (virtual )?table (?!entries\b)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Setting:
    """The places of the store. file: on this machine; url: of the shared store, "" if there is none."""

    file: Path
    url: str = ""
    read_only: bool = False

    @staticmethod
    def of(text: str | Path | None = None) -> Setting:
        """Returns the setting in `text`, else in VARIABLE, else the default. Raises InputError if it is wrong."""
        given = str(text or os.environ.get(VARIABLE) or "")
        local: list[str] = []
        shared: list[str] = []
        for part in filter(None, (p.strip() for p in given.split(","))):
            (shared if "://" in part else local).append(part)
        if len(local) > 1 or len(shared) > 1 or any(p.startswith(_READ_ONLY) for p in local):
            raise InputError(
                f"the cache {given!r} is no place: give a directory, a URL or read-only:URL, or DIRECTORY,URL"
            )
        place = Path(local[0]).expanduser() if local else Path(platformdirs.user_cache_dir("eqsat"))
        file = place if place.suffix == _SUFFIX else place / _FILE
        url = shared[0] if shared else ""
        return Setting(file, url.removeprefix(_READ_ONLY), url.startswith(_READ_ONLY))

    def check(self) -> None:
        """Raises InputError unless the file is a store, or absent, and the URL's protocol is known."""
        check_file(self.file)
        if self.url:
            import fsspec

            scheme = self.url.partition("://")[0]
            try:
                fsspec.get_filesystem_class(scheme)
            except ValueError as e:
                raise InputError(
                    f"the cache {self.url}: {scheme}:// is unknown: give file://, https:// or s3://"
                ) from e
            except ImportError as e:
                package = "eqsat[http]" if scheme.startswith("http") else f"fsspec[{scheme}]"
                raise InputError(f"the cache {self.url}: {e}; pip install '{package}'") from e


def check_file(path: Path) -> None:
    """Raises InputError for a file that is something else, such as a pipe or a database with tables of others."""
    with suppress(OSError):
        special = [p for p in (path, *path.parents) if is_special(p)]  # opening a pipe waits for its other end
        if special or _is_another(path):
            place = special[0] if special else path
            raise InputError(f"{place} is no store of eqsat: choose another place for the cache, or remove it")


def _is_another(path: Path) -> bool:
    """Whether a file is something else than a store. Raises OSError."""
    with path.open("rb") as f:
        head = f.read(_HEAD)
    return bool(head) and (not head.startswith(_MAGIC) or _has_others(path, head))


def _has_others(path: Path, head: bytes) -> bool:
    """Whether a database has something in it that is not a store's; head: its first bytes, for a damaged one."""
    # immutable: no lock is taken, and no file made beside it
    uri = f"{path.resolve().as_uri()}?immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as db:
            db.execute("pragma trusted_schema=off")
            names = {
                name
                for (name,) in db.execute("select name from sqlite_master where name not like 'sqlite@_%' escape '@'")
            }
            columns = tuple(name for (name,) in db.execute("select name from pragma_table_info(?)", (TABLE,)))
    except (sqlite3.Error, UnicodeDecodeError):
        return bool(_OTHER_TABLE.search(head))
    return not names <= {TABLE} or columns not in ((), COLUMNS)


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
    """One kind of entries. entries: how many are kept; bytes: how many bytes are kept in all, 0 for no limit."""

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
