"""Drills: what happens when something goes wrong, tried out and written down.

    python -m tests.drills --out benchmarks/results/drills

A drill is a function that takes a directory of its own and answers (passed, what was seen). It does the harm for real:
it kills the process, fills the disk, sends the signal.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
DrillOutcome = tuple[bool, str]
TARGET = "ethos-u85-256"
_TOKEN = "EQSAT_DRILL"


class NotPossible(Exception):
    """This machine does not let us do the harm; the message says what is missing."""


@dataclass(frozen=True, slots=True)
class Drill:
    """done: the harm. expected: what a user should see."""

    name: str
    done: str
    expected: str
    run: Callable[[Path], DrillOutcome]


DRILLS: dict[str, Drill] = {}


def drill(
    name: str, done: str, expected: str
) -> Callable[[Callable[[Path], DrillOutcome]], Callable[[Path], DrillOutcome]]:
    """Registers a drill."""

    def register(run: Callable[[Path], DrillOutcome]) -> Callable[[Path], DrillOutcome]:
        DRILLS[name] = Drill(name, done, expected, run)
        return run

    return register


@dataclass(slots=True)
class CommandProcess:
    """A command of ours, whose descendants can be found again wherever they went."""

    args: Sequence[str]
    env: Mapping[str, str] = field(default_factory=dict)
    preexec: Callable[[], None] | None = None
    token: str = field(default_factory=lambda: uuid.uuid4().hex)
    process: subprocess.Popen | None = None

    def start(self) -> CommandProcess:
        env = {**os.environ, "PYTHONPATH": str(ROOT), **self.env, _TOKEN: self.token}
        self.process = subprocess.Popen(
            [sys.executable, *map(str, self.args)],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            preexec_fn=self.preexec,
        )
        return self

    def finish(self, timeout: float = 600) -> tuple[int, str, str]:
        """(exit code as a shell shows it, stdout, stderr)."""
        try:
            out, err = self.process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            for p in self.survivors():
                p.kill()
            out, err = self.process.communicate()
            return -1, out, f"it did not end within {timeout:g} s\n{err}"
        code = self.process.returncode
        return (128 - code if code < 0 else code), out, err

    def survivors(self, patience: float = 0.0) -> list[psutil.Process]:
        """Processes that it started, or itself, that still run after `patience` seconds."""
        deadline = time.monotonic() + patience
        while True:
            found = [p for p in psutil.process_iter() if self._ours(p)]
            if not found or time.monotonic() >= deadline:
                return found
            time.sleep(0.1)

    def _ours(self, p: psutil.Process) -> bool:
        try:
            return p.environ().get(_TOKEN) == self.token and p.status() != psutil.STATUS_ZOMBIE
        except (psutil.Error, OSError):
            return False


def eqsat(
    *args: object, env: Mapping[str, str] | None = None, preexec: Callable[[], None] | None = None
) -> CommandProcess:
    """The command line."""
    return CommandProcess(["-m", "eqsat.cli", *map(str, args)], env or {}, preexec)


def message(err: str) -> str:
    """The last line of stderr that says something, cut."""
    lines = [line.strip() for line in err.splitlines() if line.strip()]
    return (next((line for line in reversed(lines) if "error:" in line), lines[-1] if lines else "")).replace(
        "error: ", ""
    )[:230]


def clear_error(err: str) -> bool:
    """One line of the tool's own, and no traceback."""
    return "error:" in err and "Traceback" not in err
