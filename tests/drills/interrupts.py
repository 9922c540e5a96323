"""Ctrl-C at every stage of the commands."""

from __future__ import annotations

import os
import random
import signal
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
    name = f"{stage}-{wait:.3f}"
    temporary = place / f"tmp-{name}"
    temporary.mkdir()
    out = place / f"out-{name}"
    process = CommandProcess(
        ["-m", *(["eqsat.cli"] if stage == "moment" else ["tests.drills.staged", stage]), *command, "-o", out],
        {"TMPDIR": str(temporary), "EQSAT_CACHE": str(place / "cache")},
    ).start()
    reached = threading.Event()
    if stage == "moment":
        reached.set()
    errors: list[str] = []

    def listen() -> None:
        for line in process.process.stderr:
            if line.startswith(f"STAGE {stage}"):
                reached.set()
            else:
                errors.append(line)

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    while not reached.wait(0.05) and process.process.poll() is None:
        pass
    time.sleep(wait)
    sent = time.monotonic()
    if process.process.poll() is None:
        os.killpg(process.process.pid, signal.SIGINT)
    try:
        process.process.wait(60)
    except Exception:  # noqa: BLE001 - it does not end: that is the outcome
        for p in process.survivors():
            p.kill()
        return False, f"{stage}: did not end within 60 s"
    seconds = time.monotonic() - sent
    listener.join(5)
    code = process.process.returncode
    code = 128 - code if code < 0 else code
    left = process.survivors(10)
    for p in left:
        p.kill()
    beside = [
        p.name for p in [*temporary.iterdir(), *place.glob(f".out-{name}*")] if not p.name.startswith("torchinductor")
    ]
    trace = any("Traceback" in e for e in errors)
    written = out.exists() and not (stage == "moment" and (code == 0 or "was written" in "".join(errors)))
    ended = code == 130 or stage == "moment" and code == 0
    well = reached.is_set() and ended and not written and not left and not beside and not trace
    said = (
        ""
        if well
        else (
            f" ({'' if reached.is_set() else 'never reached, '}{len(left)} processes left, {'output written, ' if written else ''}"
            f"left behind: {beside}, {'traceback' if trace else ''.join(errors)[-120:]!r})"
        )
    )
    return well, f"{name if stage == 'moment' else stage} {code} after {seconds:.1f} s{said}"


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
