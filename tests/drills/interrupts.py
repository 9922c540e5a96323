"""Ctrl-C at every stage of the commands: a search it ends with the best so far, everything else at once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from eqsat.tosa import dumps, loads
from tests.drills import TARGET, CommandProcess, DrillOutcome, drill
from tests.drills.files import MODEL
from tests.fuzzing.formats import transposes

#: Stages of `eqsat optimize` in their order ("search": of the portfolio, which returns its incumbent), and what
#: `eqsat compile` has besides.
OPTIMIZE = ("starting", "import", "vela", "saturate", "price", "extract", "search", "verify", "write")
COMPILE = ("starting", "quantizing", "lowering", "saturate", "price", "verify", "to_executorch", "write")
#: Those in which the first Ctrl-C ends the search, and not the command.
SEARCHING = ("vela", "saturate", "price", "extract", "search", "verify")
#: Random moments of one command, from its first import to its last line.
MOMENTS = 50


def interrupted(place: Path, stage: str, command: list[object], wait: float = 0.1, times: int = 1) -> tuple[bool, str]:
    """Sends SIGINT to the command's whole group, as a terminal does, `wait` seconds after it has entered the stage
    ("moment": after its start, in the unchanged command; that it is done by then is no failure), as often as `times`
    says."""
    name = f"{stage}-{wait:.3f}" if stage == "moment" else stage
    temporary = place / f"tmp-{name}"
    temporary.mkdir()
    out = place / f"out-{name}"
    process = CommandProcess(
        [
            "-m",
            *(["eqsat.cli"] if stage == "moment" else ["tests.drills.staged", stage]),
            *command,
            "--json",
            "-o",
            out,
        ],
        {"TMPDIR": str(temporary), "EQSAT_CACHE": str(place / "cache")},
    ).start()
    reached, lines, printed = threading.Event(), list[str](), list[str]()

    def listen() -> None:
        for line in process.process.stderr:
            if line.startswith(f"STAGE {stage}"):
                reached.set()
            else:
                lines.append(line)

    listeners = [
        threading.Thread(target=listen, daemon=True),
        threading.Thread(target=lambda: printed.append(process.process.stdout.read()), daemon=True),
    ]
    for listener in listeners:
        listener.start()
    while stage != "moment" and not reached.wait(0.05) and process.process.poll() is None:
        pass
    time.sleep(wait)
    done = out.exists() or process.process.poll() is not None
    try:
        code, seconds = _interrupt(process, times)
    except subprocess.TimeoutExpired:
        for p in process.survivors():
            p.kill()
        return False, f"{stage}: did not end within 60 s"
    for listener in listeners:
        listener.join(5)
    errors = "".join(lines)
    faults = [*_processes_left(process), *_files_left(temporary, *place.glob(f".out-{name}*"))]
    if stage != "moment" and not reached.is_set():
        faults.append("never reached")
    expected = (0, 130) if stage == "moment" else (0,) if stage in SEARCHING and times == 1 else (130,)
    if code not in expected:
        faults.append(f"ends with {errors[-120:]!r}")
    if code == 0:
        faults += _unsound(out, "".join(printed), stage != "moment" and stage != "verify")
    elif out.exists() and not (stage == "moment" and "was written" in errors):
        faults.append("output written")
    if "Traceback" in errors:
        faults.append("traceback")
    if code == 0 and not (stage == "moment" and done) and "Ctrl-C again stops at once" not in errors:
        faults.append("the signal was lost")
    said = f" ({', '.join(faults)})" if faults else ""
    return not faults, f"{name} {code} after {seconds:.1f} s{said}"


def _unsound(out: Path, printed: str, cut_short: bool) -> Iterator[str]:
    """What is wrong with a result that was written. cut_short: its search must have been ended early."""
    result = json.loads(printed)
    if not out.exists():
        yield "no output"
    elif out.read_bytes()[4:8] == b"TOSA":
        loads(out.read_bytes(), out.name)  # raises where it is not whole
    if not result["verified"] or result["cycles"]["eqsat"] > result["cycles"]["stock"]:
        yield "unsound"
    if cut_short and not (result["interrupted"] and any("was interrupted" in w for w in result["warnings"])):
        yield "not said to be interrupted"


def _interrupt(process: CommandProcess, times: int) -> tuple[int, float]:
    """The exit code after that many SIGINTs, as a shell has it, and the seconds until the end. Raises
    TimeoutExpired."""
    sent = time.monotonic()
    for _ in range(times):
        if process.process.poll() is None:
            os.killpg(process.process.pid, signal.SIGINT)
            time.sleep(0.5 if times > 1 else 0.0)
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
    "exit code 130 at once; no output, nothing left behind, no process left; in stages of the search 0, with the best so far, verified",
)
def optimize(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    return _all(place, OPTIMIZE, lambda: ["optimize", place / "in.tosa", "-t", TARGET])


@drill(
    "Ctrl-C in eqsat compile",
    f"SIGINT to the process group in the stages {', '.join(COMPILE)}",
    "exit code 130 at once; no output, nothing left behind, no process left; in stages of the search 0, with the best so far, verified",
)
def compile_(place: Path) -> DrillOutcome:
    return _all(place, COMPILE, lambda: ["compile", MODEL, "-t", TARGET])


@drill(
    "Ctrl-C twice",
    "SIGINT to the process group, and again after half a second, in the extraction of eqsat optimize",
    "exit code 130 at once; no output, nothing left behind, no process left",
)
def twice(place: Path) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    return interrupted(place, "search", ["optimize", place / "in.tosa", "-t", TARGET], times=2)


@drill(
    "Ctrl-C at random moments",
    f"SIGINT to the process group at {MOMENTS} random moments of eqsat optimize",
    "exit code 0 with a verified result, or 130 at once with no output that is not told; nothing left behind, no process left",
)
def moments(place: Path, count: int = MOMENTS, seed: int = 7) -> DrillOutcome:
    (place / "in.tosa").write_bytes(dumps(transposes()))
    command: list[object] = ["optimize", place / "in.tosa", "-t", TARGET]
    started = time.monotonic()
    CommandProcess(
        ["-m", "eqsat.cli", *command, "-o", place / "whole"], {"EQSAT_CACHE": str(place / "cache")}
    ).start().finish()
    seconds, draw = time.monotonic() - started, random.Random(seed)
    outcomes = [interrupted(place, "moment", command, draw.random() * seconds) for _ in range(count)]
    return all(ok for ok, _ in outcomes), "; ".join(text for _, text in outcomes)
