"""The store that eqsat uses: the one on this machine, and behind it the one that a team shares."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from msgspec import ValidationError, convert, to_builtins

from eqsat.ground.digest import digest
from eqsat.ground.files import InputError, OutputError, beside, check_input, placing, write_atomically
from eqsat.ground.packed import UnpackError, pack_json, unpack_json
from eqsat.store.local import FAILURES, LARGEST, MARK, Kind, LocalStore, Setting, check_file, is_valid, mark

#: The first bytes of an entry; they change with the format.
_HEAD = b"eqsat 1\n"
#: Seconds for one entry, after which the store counts as unreachable.
_SECONDS = 20.0

T = TypeVar("T")


class SharedStore:
    """A store that a team shares: a folder, an HTTP server or a bucket that fsspec reaches.

    An entry is a file `KIND/NAME`, written as a whole: a checksum of name and bytes, and the bytes.
    Nothing is listed or locked. A store that fails once is not used again by this process.
    failure: why it is not used any more, "" while it is.
    """

    def __init__(self, url: str, read_only: bool) -> None:
        self.url, self.read_only, self.failure = url.rstrip("/"), read_only, ""
        self._lock = threading.Lock()

    def get(self, name: str) -> bytes | None:
        """Returns the bytes of an entry, None if it does not exist or is damaged."""
        raw = self._attempt(lambda: self._read(name))
        if raw is None or not raw.startswith(_HEAD):
            return None
        checksum, value = raw[len(_HEAD) : len(_HEAD) + MARK], raw[len(_HEAD) + MARK :]
        return value if is_valid(name, value, checksum) else None

    def put(self, name: str, value: bytes) -> None:
        """Writes an entry, unless the store is only read."""
        if not self.read_only and len(value) <= LARGEST:
            self._attempt(lambda: self._write(name, _HEAD + mark(name, value) + value))

    def _read(self, name: str) -> bytes | None:
        fs, path = self._file(name)
        # block_size 0 is one request, without another one for the size before
        streamed = {"block_size": 0} if "http" in fs.protocol else {}
        parts, left = [], len(_HEAD) + MARK + LARGEST
        try:
            with fs.open(path, "rb", **streamed) as f:
                while left >= 0 and (part := f.read(min(left + 1, 1 << 20))):
                    parts.append(part)
                    left -= len(part)
        except (FileNotFoundError, IsADirectoryError):
            return None
        return b"".join(parts) if left >= 0 else None

    def _write(self, name: str, data: bytes) -> None:
        fs, path = self._file(name)
        if "file" in fs.protocol:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            write_atomically(Path(path), data)
        else:
            fs.pipe_file(path, data)

    def _file(self, name: str) -> tuple[Any, str]:
        import fsspec

        fs, path = fsspec.core.url_to_fs(f"{self.url}/{name}")
        return fs, str(path)

    def _attempt(self, work: Callable[[], T]) -> T | None:
        """Returns the result of work that may fail or never end; None, with a `failure`, if it does."""
        if self.failure:
            return None
        done: list[T] = []
        failed: list[str] = []

        def run() -> None:
            try:
                done.append(work())
            except Exception as e:  # noqa: BLE001 - every protocol has its own errors; a failure may cost only time
                failed.append(f"{type(e).__name__}: {e}".splitlines()[0])

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_SECONDS)
        if done:
            return done[0]
        with self._lock:
            self.failure = self.failure or (failed[0] if failed else f"no answer within {_SECONDS:.0f} s")
        return None


@cache
def get_shared_store(url: str, read_only: bool) -> SharedStore:
    """Returns the one SharedStore of this process for a URL."""
    return SharedStore(url, read_only)


#: Prices of units, by `cost_models.cache`.
PRICES = Kind("price", 400_000)
#: Results of whole graphs.
ANSWERS = Kind("answer", 4_000, 256 << 20)
KINDS = (PRICES, ANSWERS)
#: Entries that are copied at once.
_BATCH = 2_000


class Store:
    """Entries of all kinds by name. local: the store on this machine; shared: the team's store, or None.

    The team's store has the entries that one `get` asks for as one batch, under a name made of all their names.
    """

    def __init__(self, place: str | Path | None = None) -> None:
        """Opens the store at a place (`local.py`). Raises InputError if it is given and cannot be used."""
        self.setting = Setting.of(place)
        if place:
            self.setting.check()
        self.local = LocalStore(self.setting.file)
        url = self.setting.url
        self.shared = get_shared_store(url, self.setting.read_only) if url else None
        #: {name: bytes, None if they are not known} of the last `get`.
        self._asked: dict[str, bytes | None] = {}

    @property
    def warnings(self) -> list[str]:
        """Warnings for the user, one line each."""
        out = []
        if self.local.failure:
            out.append(f"prices are measured anew each time: {self.local.path}: {self.local.failure}")
        if self.shared and self.shared.failure:
            out.append(f"the shared store {self.shared.url} is not used: {self.shared.failure}")
        return out

    def get(self, kind: Kind, names: Sequence[str]) -> dict[str, bytes]:
        """Returns {name: bytes} of the entries that are known, those from the team's store after a check."""
        known = self.local.get([kind.key(n) for n in names])
        found = {key.partition(":")[2]: value for key, value in known.items()}
        if self.shared and len(found) < len(set(names)):
            batch = _unpack(self.shared.get(_batch_name(kind, names)))
            new = {n: batch[n] for n in names if n in batch and n not in found}
            self._keep(kind, new)
            found |= new
        self._asked = {n: found.get(n) for n in names}
        return found

    def put(self, kind: Kind, entries: Mapping[str, bytes]) -> None:
        """Stores entries; the team's store gets all that was asked for before if they complete it."""
        self._keep(kind, entries)
        asked = self._asked or dict[str, bytes | None].fromkeys(entries)
        if self.shared and any(entries.get(n, old) != old for n, old in asked.items()):
            self._asked = {n: entries.get(n, old) for n, old in asked.items()}
            every = {n: value for n, value in self._asked.items() if value is not None}
            self.shared.put(_batch_name(kind, asked), pack_json(to_builtins(every)))

    def _keep(self, kind: Kind, entries: Mapping[str, bytes]) -> None:
        self.local.put({kind.key(n): v for n, v in entries.items()}, kind)

    def family(self, kind: Kind, prefix: str) -> dict[str, bytes]:
        """Returns {rest of the name: bytes} of the entries on this machine with a prefix."""
        start = len(kind.key(prefix))
        return {key[start:]: value for key, value in self.local.range(*kind.range(prefix)).items()}

    def keep(self, kind: Kind, prefix: str, most: int) -> None:
        """Drops all entries with a prefix on this machine but the `most` that were used last."""
        self.local.keep(*kind.range(prefix), most)

    def close(self) -> None:
        self.local.close()


def _batch_name(kind: Kind, names: Iterable[str]) -> str:
    return f"{kind.name}/{digest(name.encode() for name in sorted(set(names)))}"


def _unpack(batch: bytes | None) -> dict[str, bytes]:
    """Returns the entries of a batch, none if it has another form."""
    try:
        return convert(unpack_json(batch), dict[str, bytes]) if batch else {}
    except (UnpackError, ValidationError):
        return {}


def export(store: LocalStore, path: Path) -> int:
    """Writes all entries to one file and returns their number. Raises OutputError."""
    count = 0
    try:
        with beside(path) as temporary:
            with closing(LocalStore(temporary)) as copy, _rows(store.path) as rows:
                count = _copy(rows, copy)[0]
                failure = copy.failure
            if failure:
                raise OutputError(f"cannot write {path}: {failure}")
            with placing(path):
                temporary.replace(path)
    except OSError as e:
        raise OutputError(f"cannot write {path}: {e.strerror or e}") from e
    return count


def import_entries(store: LocalStore, path: Path) -> tuple[int, int]:
    """Takes over the entries of an exported file, each checked, and returns (taken, refused).

    Raises InputError for another file, and for a damaged one after taking over the entries that could be read.
    """
    check_input(path)
    if not path.stat().st_size:
        raise InputError(f"cannot read {path}: give a file that `eqsat cache export` wrote")
    check_file(path)
    taken = (0, 0)
    try:
        with _rows(path) as rows:
            taken = _copy(rows, store)
    except FAILURES as e:
        raise InputError(f"{path} is damaged ({e}): export it again") from e
    return taken


@contextmanager
def _rows(path: Path) -> Iterator[Iterator[tuple[object, object, object]]]:
    """Yields the rows of a file, which is only read, and whose schema is not trusted, or raises sqlite3.Error."""
    with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode(errors="replace")
        db.execute("pragma trusted_schema=off")
        if not db.execute("select 1 from sqlite_master where type = 'table' and name = 'entries'").fetchone():
            raise sqlite3.DatabaseError("it has no entries")
        yield db.execute(f"select key, iif(length(value) <= {LARGEST}, value, null), mark from entries order by used")


def _copy(rows: Iterable[tuple[object, object, object]], store: LocalStore) -> tuple[int, int]:
    """Copies rows into a store and returns (entries that it took, rows that are not valid)."""
    by_kind: dict[Kind, dict[str, bytes]] = {kind: {} for kind in KINDS}
    kinds = {kind.name: kind for kind in by_kind}
    taken = refused = 0
    for key, value, checksum in rows:
        kind = kinds.get(key.partition(":")[0]) if isinstance(key, str) else None
        if kind is None or not is_valid(key, value, checksum):
            refused += 1
            continue
        assert isinstance(key, str) and isinstance(value, bytes)
        taken += 1
        by_kind[kind][key] = value
        if len(by_kind[kind]) >= _BATCH or len(value) > 1 << 20:
            store.put(by_kind[kind], kind)
            by_kind[kind] = {}
    for kind, entries in by_kind.items():
        store.put(entries, kind)
    return taken, refused
