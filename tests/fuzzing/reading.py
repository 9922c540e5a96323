"""Reads damaged files in a process of its own, and watches over it.

`run` is the watcher's side, `read` the reader's: it makes one input from its number and reads it. The reader may take 1
GB more memory than it has after its imports.
"""

from __future__ import annotations

import contextlib
import random
import resource
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import psutil

from eqsat.ground.process import Limits, Process, WorkerError
from tests.fuzzing.formats import FORMATS
from tests.fuzzing.outcome import Format

#: Seconds of computing after which an input hangs its reader, and of waiting, for one that does not even compute.
DEADLINE, PATIENCE = 5.0, 120.0
MEMORY = 1 << 30


@dataclass(slots=True)
class Tally:
    """Outcomes of a format: inputs by outcome and by mutator; findings are inputs with another outcome than a named
    error."""

    format: str
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    accepted_by_mutator: dict[str, list[int]] = field(default_factory=dict)
    findings: list[dict[str, Any]] = field(default_factory=list)
    slowest: float = 0.0
    peak_mib: int = 0

    def add(self, line: dict[str, Any]) -> None:
        self.inputs += 1
        if "finding" in line:
            self.findings.append(line)
            self.outcomes["FINDING"] += 1
        else:
            self.outcomes[line["outcome"]] += 1
        for name in set(filter(None, line.get("how", "").split("+"))):
            pair = self.accepted_by_mutator.setdefault(name, [0, 0])
            pair[0] += line.get("outcome", "").startswith("accepted")
            pair[1] += 1
        self.slowest = max(self.slowest, line.get("seconds", 0.0))
        self.peak_mib = max(self.peak_mib, line.get("mib", 0))


def run(form: str, seed: int, inputs: int, place: Path, start: int = 0) -> Tally:
    """Reads the inputs `start` to `start + inputs`; the corpus must be in `place`/corpus."""
    tally = Tally(form)
    with Process(__name__) as process:
        for number in range(start, start + inputs):
            try:
                process.call(prepare, form, str(place))  # takes its time only in a new process
                line = process.call(read, form, seed, number, str(place), limits=Limits(PATIENCE, cpu_seconds=DEADLINE))
            except WorkerError as e:
                line = {"number": number, "finding": str(e)}
            tally.add(line)
    return tally


# ---- the reader's side ----------------------------------------------------------------------------


@cache
def prepare(form: str, place: str) -> None:
    """Reads the corpus and imports whatever is imported late; then the process may take no more memory than MEMORY
    besides."""
    f, corpus, own = _prepared(form, place)
    for data in corpus[:2]:
        with contextlib.suppress(Exception):
            f.read(bytes([0, 0]) + data if form == "run" else data, own)
    _peak_when_prepared()
    limit = psutil.Process().memory_info().vms + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


@cache
def _prepared(form: str, place: str) -> tuple[Format, list[bytes], Path]:
    """(the format, its corpus, a directory of this process's own)."""
    own = Path(place) / f"{form}-{psutil.Process().pid}"
    own.mkdir()
    files = sorted(p for p in (Path(place) / "corpus").iterdir() if p.is_file())
    return FORMATS[form], [p.read_bytes() for p in files], own


def read(form: str, seed: int, number: int, place: str) -> dict[str, Any]:
    """What became of an input."""
    f, corpus, own = _prepared(form, place)
    data, how = f.damage(random.Random(f"{form}:{seed}:{number}"), corpus)
    line: dict[str, Any] = {"number": number, "how": how}
    started = time.process_time()
    try:
        line["outcome"] = f.read(data, own)
    except Exception as e:  # noqa: BLE001 - anything but a named error is what we are looking for
        line["finding"] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
    return {**line, "seconds": round(time.process_time() - started, 4), "mib": _peak_mib() - _peak_when_prepared()}


@cache
def _peak_when_prepared() -> int:
    return _peak_mib()


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10
