"""Reads damaged files in a process of its own, and watches over it.

`run` is the watcher's side. Run as `python -m tests.fuzzing.reading FORMAT SEED START END DIRECTORY` this is the reader's: a line of
JSON per input. The reader may take 1 GB more memory than it has after its imports.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import select
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

#: Seconds of computing after which an input hangs its reader, and of waiting, for one that does not even compute.
DEADLINE, PATIENCE = 5.0, 120.0
MEMORY = 1 << 30
ROOT = Path(__file__).parents[2]


@dataclass(slots=True)
class Tally:
    """Outcomes of a format: inputs by outcome and by mutator; findings are inputs with another outcome than a named error."""

    format: str
    inputs: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    accepted_by_mutator: dict[str, list[int]] = field(default_factory=dict)
    findings: list[dict] = field(default_factory=list)
    slowest: float = 0.0
    peak_mib: int = 0

    def add(self, line: dict) -> None:
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
    tally, number, end = Tally(form), start, start + inputs
    while number < end:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzzing.reading", form, str(seed), str(number), str(end), str(place)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=ROOT,
            start_new_session=True,
        )
        try:
            number = _watch(process, tally, number)
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
    return tally


def _watch(process: subprocess.Popen, tally: Tally, number: int) -> int:
    """Takes in what a process finds until it ends or hangs; the number of the input at which the next process starts."""
    rest, computed, heard, ready = b"", 0.0, time.monotonic(), False
    while True:
        if not select.select([process.stdout], [], [], 1.0)[0]:
            cpu = _computed(process.pid)
            if ready and (cpu - computed > DEADLINE or time.monotonic() - heard > PATIENCE):
                tally.add({"number": number, "finding": "it hangs"})
                return number + 1
            continue
        piece = os.read(process.stdout.fileno(), 1 << 16)
        if not piece:
            code = process.wait()
            if code:
                tally.add(
                    {
                        "number": number,
                        "finding": f"the process died (signal {-code})"
                        if code < 0
                        else f"the process died (exit code {code})",
                    }
                )
            return number + bool(code)
        *lines, rest = (rest + piece).split(b"\n")
        for line in map(json.loads, lines):
            if "ready" not in line:
                tally.add(line)
                number = line["number"] + 1
        computed, heard, ready = _computed(process.pid), time.monotonic(), True


def _computed(pid: int) -> float:
    try:
        times = psutil.Process(pid).cpu_times()
        return times.user + times.system
    except psutil.Error:
        return 0.0


# ---- the reader's side ----------------------------------------------------------------------------


def _read_all(form: str, seed: int, start: int, end: int, place: Path) -> None:
    from tests.fuzzing.formats import FORMATS

    f = FORMATS[form]
    files = sorted(p for p in (place / "corpus").iterdir() if p.is_file())
    corpus = [p.read_bytes() for p in files]
    own = place / f"{form}-{os.getpid()}"
    own.mkdir()
    for data in corpus[:2]:  # whatever is imported late is imported now
        with contextlib.suppress(Exception):
            f.read(bytes([0, 0]) + data if form == "run" else data, own)
    print(json.dumps({"ready": True}), flush=True)
    limit = psutil.Process().memory_info().vms + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    before = _peak_mib()
    for number in range(start, end):
        data, how = f.damage(random.Random(f"{form}:{seed}:{number}"), corpus)
        line, started = {"number": number, "how": how}, time.process_time()
        try:
            line["outcome"] = f.read(data, own)
        except Exception as e:  # noqa: BLE001 - anything but a named error is what we are looking for
            line["finding"] = f"{type(e).__name__}: {' '.join(str(e).split())[:200]}"
        line["seconds"] = round(time.process_time() - started, 4)
        line["mib"] = _peak_mib() - before
        print(json.dumps(line), flush=True)


def _peak_mib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) >> 10


if __name__ == "__main__":
    _read_all(sys.argv[1], *map(int, sys.argv[2:5]), Path(sys.argv[5]))
