"""The files of a run: `records.jsonl` with a record per cell, `graphs/` with those at the hook point and `chosen/` with those that
Vela got, `run.json` about the machine and the versions."""

from __future__ import annotations

import fcntl
import json
import os
import platform
import re
import time
from pathlib import Path
from typing import Any

import psutil

from eqsat.bench.cells import all_versions
from eqsat.bench.log import Log, Record, read
from eqsat.files import InputError, write_atomically
from eqsat.versions import commit

CellKey = tuple[str, str, str]
_RECORDS = "records.jsonl"


def place(record: Record) -> CellKey:
    return record["model"], record["target"], record["configuration"]


class RunFiles:
    """A run's directory; of several records of a cell the last counts. Raises InputError if it cannot be made or another run has it."""

    def __init__(self, directory: Path):
        self.directory = directory
        try:
            (directory / "graphs").mkdir(parents=True, exist_ok=True)
            (directory / "chosen").mkdir(exist_ok=True)
        except OSError as e:
            raise InputError(
                f"cannot make the run's directory {directory}: {e.strerror or e}; choose another with --out"
            ) from e
        self._lock = (directory / ".lock").open("w")  # until `close`, or this process ends
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as e:
            raise InputError(f"another run is writing to {directory}: wait for it or choose another --out") from e
        self.log = Log(directory / _RECORDS, place)

    def close(self) -> None:
        """Another run may have the directory now."""
        self._lock.close()

    def graphs(self, model: str, target: str) -> tuple[dict[str, bytes], Record] | None:
        """What `save_graphs` wrote, or None."""
        try:
            side = json.loads(self._side(model, target).read_text())
            return {name: self._graph(model, target, name).read_bytes() for name in side["files"]}, side
        except (OSError, ValueError):
            return None

    def save_graphs(self, model: str, target: str, files: dict[str, bytes], side: Record) -> None:
        """The side record is written last: it stands for the whole."""
        for name, data in files.items():
            write_atomically(self._graph(model, target, name), data)
        write_atomically(self._side(model, target), json.dumps({**side, "files": sorted(files)}, indent=1).encode())

    def _side(self, model: str, target: str) -> Path:
        return self.directory / "graphs" / f"{model}.{target}.json"

    def _graph(self, model: str, target: str, name: str) -> Path:
        delegate, kind = name.split(".")
        return self.directory / "graphs" / f"{model}.{delegate}.{target}.{kind}.tosa"

    def save_chosen(self, record: Record, tosas: dict[str, bytes], rows: list[list[dict]]) -> None:
        for i, data in tosas.items():
            write_atomically(chosen_path(self.directory, place(record), i), data)
        write_atomically(
            chosen_path(self.directory, place(record), "rows").with_suffix(".json"), json.dumps(rows).encode()
        )

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
        write_atomically(self.directory / "run.json", (json.dumps(about, indent=1) + "\n").encode())


def chosen_path(directory: Path, where: CellKey, delegate: str) -> Path:
    model, target, configuration = where
    return directory / "chosen" / f"{model}.{delegate}.{target}.{re.sub(r'[^A-Za-z0-9=]+', '_', configuration)}.tosa"


def read_records(directory: Path) -> list[Record]:
    """Records of a run, finished or not, the last of each cell. Raises InputError."""
    return list(read(directory / _RECORDS, place).values())
