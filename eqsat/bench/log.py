"""Records on disk, a line of JSON each, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any

from eqsat.ground.files import InputError, write_atomically

Record = dict[str, Any]
#: What a record is of; KeyError for one that is of nothing. `operator.itemgetter("model", "target")` is one.
Identity = Callable[[Record], Hashable]


class Log:
    """The records of a file by what they are of, the last of each; those that `keep` refuses go when it is opened.

    >>> import tempfile
    >>> from operator import itemgetter
    >>> path = Path(tempfile.mkdtemp()) / "records.jsonl"
    >>> Log(path, itemgetter("model")).add({"model": "emg", "cycles": 7})
    >>> Log(path, itemgetter("model")).records
    {'emg': {'model': 'emg', 'cycles': 7}}

    Raises InputError where the file cannot be read or written.
    """

    def __init__(self, path: Path, identity: Identity, keep: Callable[[Record], bool] = lambda record: True):
        self.path, self.identity = path, identity
        self.records: dict[Hashable, Record] = {k: r for k, r in read(path, identity).items() if keep(r)}
        self._rewrite()

    def add(self, record: Record) -> None:
        """Appends it; it is on the disk when this returns."""
        self.records[self.identity(record)] = record
        with self.path.open("a") as f:
            f.write(json.dumps(record) + "\n")
            f.flush()
            os.fsync(f.fileno())

    def sort(self, order: Iterable[Hashable]) -> None:
        """Writes the file anew: first the records of `order`, then what it has besides."""
        wanted = [k for k in order if k in self.records]
        self.records = {k: self.records[k] for k in dict.fromkeys([*wanted, *self.records])}
        self._rewrite()

    def _rewrite(self) -> None:
        write_atomically(self.path, "".join(json.dumps(r) + "\n" for r in self.records.values()).encode())


def read(path: Path, identity: Identity) -> dict[Hashable, Record]:
    """The last record of each thing; lines that an interruption tore are passed over. Raises InputError."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return {}
    except OSError as e:
        raise InputError(f"cannot read {path}: {e.strerror or e}") from e
    found: dict[Hashable, Record] = {}
    for line in lines:
        try:
            record = json.loads(line)
            found[identity(record)] = record
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
    return found
