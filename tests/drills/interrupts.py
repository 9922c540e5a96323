"""Ctrl-C at every stage of the commands."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from eqsat.tosa import dumps
from tests.drills import TARGET, CommandProcess, DrillOutcome, drill
from tests.drills.files import MODEL
from tests.fuzzing.formats import transposes

#: Stages of `eqsat optimize` in their order ("search": of the portfolio, which returns its incumbent), and what `eqsat compile` has besides.
OPTIMIZE = ("starting", "import", "vela", "saturate", "price", "extract", "search", "verify", "write")
COMPILE = ("starting", "quantizing", "lowering", "saturate", "price", "verify", "to_executorch", "write")


#: Random moments of one command, from its first import to its last line.
MOMENTS = 20


def interrupted(place: Path, stage: str, command: list[object], wait: float = 0.1) -> tuple[bool, str]:
    """Sends SIGINT to the command's whole group, as a terminal does, `wait` seconds after it has entered the stage ("moment": after its
    start, in the unchanged command; that it is done by then is no failure)."""
    name = f"{stage}-{wait:.3f}" if stage == "moment" else stage
    temporary = place / f"tmp-{name}"
    temporary.mkdir()
    out = place / f"out-{name}"
    process = CommandProcess(
        ["-m", *(["eqsat.cli"] if stage == "moment" else ["tests.drills.staged", stage]), *command, "-o", out],
        {"TMPDIR": str(temporary), "EQSAT_CACHE": str(place / "cache")},
    ).start()
    reached, lines = threading.Event(), list[str]()

    def listen() -> None:
        for line in process.process.stderr:
            if line.startswith(f"STAGE {stage}"):
                reached.set()
            else:
                lines.append(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    while stage != "moment" and not reached.wait(0.05) and process.process.poll() is None:
        pass
    time.sleep(wait)
    try:
        code, seconds = _interrupt(process)
    except subprocess.TimeoutExpired:
        for p in process.survivors():
            p.kill()
        return False, f"{stage}: did not end within 60 s"
    listener.join(5)
    errors = "".join(lines)
    faults = [*_processes_left(process), *_files_left(temporary, *place.glob(f".out-{name}*"))]
    if stage != "moment" and not reached.is_set():
        faults.append("never reached")
    if code != 130 and not (stage == "moment" and code == 0):
        faults.append(f"ends with {errors[-120:]!r}")
    if out.exists() and not (stage == "moment" and (code == 0 or "was written" in errors)):
        faults.append("output written")
    if "Traceback" in errors:
        faults.append("traceback")
    said = f" ({', '.join(faults)})" if faults else ""
    return not faults, f"{name} {code} after {seconds:.1f} s{said}"


def _interrupt(process: CommandProcess) -> tuple[int, float]:
    """The exit code after a SIGINT, as a shell has it, and the seconds until the end. Raises TimeoutExpired."""
    sent = time.monotonic()
    if process.process.poll() is None:
        os.killpg(process.process.pid, signal.SIGINT)
    code = process.process.wait(60)
    return 128 - code if code < 0 else code, time.monotonic() - sent


def _processes_left(process: CommandProcess) -> list[str]:
    """What still runs after 10 seconds, in words; it is killed."""
    left = process.survivors(10)
    for p in left:
        p.kill()
    return [f"{len(left)} processes left"] if left else []


def _files_left(temporary: Path, *beside: Path) -> list[str]:
    names = [p.name for p in (*temporary.iterdir(), *beside) if not p.name.startswith("torchinductor")]
    return [f"files left: {names}"] if names else []


def _all(place: Path, stages: tuple[str, ...], command: Callable[[], list[object]]) -> DrillOutcome:
    outcomes = [interrupted(place, stage, command()) for stage in stages]
    return all(ok for ok, _ in outcomes), "; ".join(text for _, text in outcomes)


@drill(
    "Ctrl-C in eqsat optimize",
    f"SIGINT to the process group in the stages {', '.join(OPTIMIZE)}",
    "exit code 130 at once; no output, nothing left behind, no process left",
)
def optimize(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    return _all(place, OPTIMIZE, lambda: ["optimize", place / "in.tosa", "-t", TARGET])


@drill(
    "Ctrl-C in eqsat compile",
    f"SIGINT to the process group in the stages {', '.join(COMPILE)}",
    "exit code 130 at once; no output, nothing left behind, no process left",
)
def compile_(place: Path) -> DrillOutcome:
    return _all(place, COMPILE, lambda: ["compile", MODEL, "-t", TARGET])


@drill(
    "Ctrl-C at random moments",
    f"SIGINT to the process group at {MOMENTS} random moments of eqsat optimize",
    "exit code 130 at once; no output that is not told, nothing left behind, no process left",
)
def moments(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    command: list[object] = ["optimize", place / "in.tosa", "-t", TARGET]
    started = time.monotonic()
    CommandProcess(
        ["-m", "eqsat.cli", *command, "-o", place / "whole"], {"EQSAT_CACHE": str(place / "cache")}
    ).start().finish()
    seconds, draw = time.monotonic() - started, random.Random(7)
    outcomes = [interrupted(place, "moment", command, draw.random() * seconds) for _ in range(MOMENTS)]
    return all(ok for ok, _ in outcomes), "; ".join(text for _, text in outcomes)
