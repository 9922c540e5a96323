"""The files of a run.

`records.jsonl` has a record per cell, a line of JSON each, so that an interrupted run can continue.
`graphs/` has the graphs at the hook point.
`chosen/` has those that Vela compiled without the values of constants, and its tables, in a file per cell.
`outlines.json.xz` has all of these, and is small enough to be kept with the records.
`run.json` is about the machine and the versions.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NotRequired, TypedDict

import psutil
from msgspec import Meta, ValidationError, convert

from eqsat.bench.cells import all_versions
from eqsat.ground.files import InputError, ensure_directory, is_file_name, read_bytes, write_atomically
from eqsat.ground.packed import pack_json, unpack_json
from eqsat.ground.versions import commit
from eqsat.runs.codec import load_outline, outline
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads, tensor_names
from eqsat.vela.table import Row

#: A record of a cell, or of anything else, that is stored as a line of JSON.
Record = dict[str, Any]

#: Most bytes of a model's and a target's name together: pages of a report are named by both.
_NAMES = 200

Number = Annotated[float, Meta(ge=0, lt=2**63)]
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Verdicts = list[bool | None]


class Place(TypedDict):
    model: str
    target: str
    configuration: str


class Failed(Place):
    error: str


class MemoryFigures(TypedDict):
    peak: Count
    read: NotRequired[Count]
    written: NotRequired[Count]


class BoundFigures(TypedDict):
    roofline: Number
    operators: Number
    mac_cycles: Number


class Measured(Place):
    cycles: Count
    corrected: Count
    calibrated: Count
    by_kind: dict[str, Number]
    seconds: dict[str, Number]
    verified: bool | None
    memory: dict[str, MemoryFigures]
    peak_mib: Number
    vela: str
    weight_bytes: NotRequired[Count]
    encoded_weight_bytes: NotRequired[Count]
    command_bytes: NotRequired[Count]
    tflite_bytes: NotRequired[Count]
    pte_bytes: NotRequired[Count | None]
    e_nodes: NotRequired[Count]
    cpu_operators: NotRequired[Count]
    max_difference: NotRequired[Number | None]
    gap: NotRequired[Number | None]
    proved: NotRequired[bool | None]
    bound: NotRequired[BoundFigures]
    stop: NotRequired[list[str]]
    chosen: NotRequired[list[str]]
    binary_verified: NotRequired[Verdicts]
    binary_proved: NotRequired[Verdicts]
    stock_binary_verified: NotRequired[Verdicts]


class About(TypedDict, total=False):
    versions: dict[str, str]
    commit: str
    processors: Count | None
    memory_mib: Count
    jobs: Count


def check_fields(record: Record) -> None:
    """Raises InputError with the name of a field that is missing or has a value of another type."""
    _check(record, Failed if "error" in record else Measured)
    for name in ("model", "target"):
        if not (is_file_name(record[name]) and record[name].isprintable()):
            raise InputError(f"`{name}` is {record[name][:60]!r}, which is not a plain file name")
    if len((record["model"] + record["target"]).encode()) > _NAMES:
        raise InputError(
            f"`model` and `target` have more than {_NAMES} bytes together, too many for the name of a file"
        )


def check_about(about: Any) -> None:
    """Raises InputError for the content of a run.json with a value of another type."""
    _check(about, About)


def _check(value: Any, kind: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()  # no page can have lone surrogates
        convert(value, kind)
    except (ValidationError, UnicodeEncodeError) as e:
        raise InputError(str(e)) from e


CellKey = tuple[str, str, str]
_RECORDS, _OUTLINES, _ABOUT, _CHOSEN = "records.jsonl", "outlines.json.xz", "run.json", "chosen"


def place(record: Record) -> CellKey:
    return record["model"], record["target"], record["configuration"]


class RunFiles:
    """The directory of a run.

    records: by cell.
    Raises InputError if the directory cannot be made, another run is using it, or its records cannot be read.
    """

    def __init__(self, directory: Path):
        self.directory = directory
        for name in ("graphs", _CHOSEN):
            ensure_directory(directory / name, "--out")
        self._lock = (directory / ".lock").open("w")  # until `close`, or this process ends
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise InputError(f"another run is writing to {directory}: wait for it or choose another --out") from e
        self.records = {at: record for at, (_, record) in _last_records(directory).items()}
        self._write_records()

    def close(self) -> None:
        """Releases the directory for other runs."""
        self._lock.close()

    def add(self, record: Record) -> None:
        """Adds the record of a cell, which is on the disk when this returns."""
        self.records[place(record)] = record
        self._write_records()

    def sort(self, order: Iterable[CellKey]) -> None:
        """Puts the records of `order` before the others."""
        known = [at for at in order if at in self.records]
        self.records = {at: self.records[at] for at in dict.fromkeys([*known, *self.records])}
        self._write_records()

    def _write_records(self) -> None:
        lines = "".join(json.dumps(r) + "\n" for r in self.records.values())
        write_atomically(self.directory / _RECORDS, lines.encode())

    def graphs(self, model: str, target: str) -> tuple[dict[str, bytes], Record] | None:
        """Returns the graphs and side record that `save_graphs` wrote, None if there are none."""
        try:
            side = json.loads(self._side(model, target).read_text())
            return {name: self._graph(model, target, name).read_bytes() for name in side["files"]}, side
        except (OSError, ValueError):
            return None

    def save_graphs(self, model: str, target: str, files: dict[str, bytes], side: Record) -> None:
        """Writes the graphs, and the side record last, since it stands for the whole."""
        for name, data in files.items():
            write_atomically(self._graph(model, target, name), data)
        write_atomically(self._side(model, target), json.dumps({**side, "files": sorted(files)}, indent=1).encode())

    def _side(self, model: str, target: str) -> Path:
        return self.directory / "graphs" / f"{model}.{target}.json"

    def _graph(self, model: str, target: str, name: str) -> Path:
        delegate, kind = name.split(".")
        return self.directory / "graphs" / f"{model}.{delegate}.{target}.{kind}.tosa"

    def save_chosen(self, at: CellKey, tosas: dict[str, bytes], rows: list[list[Record]]) -> None:
        """Writes the outlines of the graphs that Vela compiled for a cell, and its tables."""
        graphs = [[outline(loads(data)), tensor_names(data)] for data in tosas.values()]
        name = re.sub(r"[^A-Za-z0-9=.@-]+", "_", ".".join(at))
        write_atomically(self.directory / _CHOSEN / f"{name}.json", json.dumps([[*at, graphs, rows]]).encode())

    def save_outlines(self) -> None:
        """Writes the outlines of the cells of all records. Raises InputError."""
        found, data = read_outlines(self.directory), []
        for at in (at for at in self.records if at in found):
            graphs = [[outline(g), names] for g, names in zip(found[at].graphs, found[at].names, strict=True)]
            data.append([*at, graphs, [[r.record() for r in rows] for rows in found[at].rows]])
        write_atomically(self.directory / _OUTLINES, pack_json(data, xz=True))

    def about(self, **more: Any) -> None:
        about = {
            "commit": commit(),
            "versions": all_versions(),
            "python": platform.python_version(),
            "machine": platform.machine(),
            "processors": os.cpu_count(),
            "memory_mib": psutil.virtual_memory().total >> 20,
            "date": time.strftime("%Y-%m-%d"),
            **more,
        }
        write_atomically(self.directory / _ABOUT, (json.dumps(about, indent=1) + "\n").encode())


@dataclass(frozen=True, slots=True)
class ChosenGraphs:
    """The graphs of a cell that Vela compiled and its tables, by delegate.

    names: nodes by the name of the tensor in a row's source.
    Constants have digests and no elements.
    The LiteRT path has tables and no graphs.
    """

    graphs: Sequence[TensorGraph]
    names: Sequence[Mapping[str, int]]
    rows: Sequence[Sequence[Row]]


def read_outlines(directory: Path) -> dict[CellKey, ChosenGraphs]:
    """Returns the graphs and tables by cell, of finished runs and since. Raises InputError if a file is damaged."""
    found: dict[CellKey, ChosenGraphs] = {}
    packed = directory / _OUTLINES
    for path in (*([packed] if packed.exists() else []), *sorted((directory / _CHOSEN).glob("*.json"))):
        try:
            for model, target, configuration, graphs, rows in unpack_json(path.read_bytes()):
                outlines, names = [load_outline(g) for g, _ in graphs], [n for _, n in graphs]
                tables = [list(map(Row.read, table)) for table in rows]
                found[model, target, configuration] = ChosenGraphs(outlines, names, tables)
        except (OSError, ValueError, TypeError, KeyError) as e:
            raise InputError(f"cannot read {path}: {e}; remove it, and `eqsat bench` there goes on without it") from e
    return found


def _last_records(directory: Path) -> dict[CellKey, tuple[int, Record]]:
    """Returns {cell: (number of the line, its last record)} of a run, finished or not. Raises InputError.

    Lines that are no record of a cell, such as one that an interruption cut short, are skipped.
    """
    path = directory / _RECORDS
    if not path.exists():
        return {}
    found: dict[CellKey, tuple[int, Record]] = {}
    for number, line in enumerate(read_bytes(path).decode(errors="replace").splitlines(), 1):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            record = json.loads(line)
            found[place(record)] = number, record
    return found


def read_records(directory: Path) -> list[Record]:
    """Returns the last record of each cell of a run. Raises InputError, also for a field of another form."""
    found = _last_records(directory).values()
    for number, record in found:
        try:
            check_fields(record)
        except InputError as e:
            raise InputError(
                f"{directory / _RECORDS}, line {number}: {e}; remove the line, and `eqsat bench` measures it anew"
            ) from e
    return [record for _, record in found]


def read_about(directory: Path) -> dict[str, Any]:
    """Returns the content of a run's run.json, empty if there is none. Raises InputError."""
    path = directory / _ABOUT
    if not path.exists():
        return {}
    remedy = "remove the file: reports do without it, and the same `eqsat bench` writes it anew"
    try:
        about = json.loads(read_bytes(path))
        check_about(about)
    except InputError as e:
        raise InputError(f"{path}: {e}; {remedy}") from e
    except (ValueError, RecursionError) as e:
        raise InputError(f"{path} is not JSON; {remedy}") from e
    return dict(about)
