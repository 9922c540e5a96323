"""Records on disk, a line of JSON each, so that an interrupted run can continue."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable, Iterator
from pathlib import Path
from typing import Any

from eqsat.ground.files import InputError, write_atomically

Record = dict[str, Any]
#: The identity of a record, such as `operator.itemgetter("model", "target")`.
#: Raises KeyError for a record without one.
Identity = Callable[[Record], Hashable]


class Log:
    """The records of a file by identity, the last of each.

    >>> import tempfile
    >>> from operator import itemgetter
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> Log(path, itemgetter("model")).add({"model": "emg", "cycles": 7})
    >>> Log(path, itemgetter("model")).records
    {'emg': {'model': 'emg', 'cycles': 7}}

    keep: records for which it is false are removed when the file is opened.
    Raises InputError if the file cannot be read or written.
    """

    def __init__(self, path: Path, identity: Identity, keep: Callable[[Record], bool] = lambda record: True):
        self.path, self.identity = path, identity
        self.records: dict[Hashable, Record] = {k: r for k, r in read(path, identity).items() if keep(r)}
        self._rewrite()

    def add(self, record: Record) -> None:
        """Appends a record, which is on the disk when this returns."""
        self.records[self.identity(record)] = record
        with self.path.open("a") as f:
            f.write(json.dumps(record) + "\n")
            f.flush()
            os.fsync(f.fileno())

    def sort(self, order: Iterable[Hashable]) -> None:
        """Rewrites the file: first the records of `order`, then the others."""
        wanted = [k for k in order if k in self.records]
        self.records = {k: self.records[k] for k in dict.fromkeys([*wanted, *self.records])}
        self._rewrite()

    def _rewrite(self) -> None:
        write_atomically(self.path, "".join(json.dumps(r) + "\n" for r in self.records.values()).encode())


def read(path: Path, identity: Identity) -> dict[Hashable, Record]:
    """Returns the last record of each identity. Raises InputError.

    Lines that an interruption cut short are skipped.
    """
    return {key: record for _, key, record in numbered(path, identity)}


def numbered(path: Path, identity: Identity) -> Iterator[tuple[int, Hashable, Record]]:
    """Yields (number of the line, identity, record) as `read` reads them. Raises InputError."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror or e}") from e
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line)
            key = identity(record)
            hash(key)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        yield number, key, record
