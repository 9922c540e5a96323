"""What does the harm from inside: cost models and rules that are given to the optimizer by name or as objects."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterable, Sequence

import psutil

from cost_models.protocol import Price, Unit
from cost_models.vela_groups import VelaGroups


def children(module: str) -> list[psutil.Process]:
    """Worker processes below this one whose name begins so (see `eqsat/ground/process.py`)."""
    found = []
    for p in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(word.startswith(module) for word in p.cmdline()[1:]):
                found.append(p)
    return found


def kill_at_work(module: str) -> int:
    """Stops the workers, so that they are certainly at work when they are killed a moment later; how many there
    were."""
    found = children(module)
    for p in found:
        with contextlib.suppress(psutil.Error):
            p.send_signal(signal.SIGSTOP)

    def kill() -> None:
        for p in found:
            with contextlib.suppress(psutil.Error):
                p.kill()

    threading.Timer(0.3, kill).start()
    return len(found)


class Killer(threading.Thread):
    """Kills workers of a module as soon as they are there, `times` of them, until `stop`."""

    def __init__(self, module: str, times: int = 1):
        super().__init__(daemon=True)
        self.module, self.times, self.killed, self._end = module, times, 0, threading.Event()

    def run(self) -> None:
        seen: set[int] = set()
        while self.killed < self.times and not self._end.wait(0.05):
            for p in children(self.module):
                if p.pid not in seen and self.killed < self.times:
                    seen.add(p.pid)
                    with contextlib.suppress(psutil.Error):
                        p.send_signal(signal.SIGSTOP)
                        time.sleep(0.2)
                        p.kill()
                        self.killed += 1

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._end.set()
        self.join()


class KillsProbes(VelaGroups):
    """The default cost model, whose workers are killed in the middle of their first probes."""

    killed = 0

    def _measure(self, units: Iterable[Unit]) -> dict[Unit, float]:
        if not KillsProbes.killed:
            KillsProbes.killed = kill_at_work("eqsat.ground.worker")
        return super()._measure(units)


class Raises(VelaGroups):
    """A cost model with a mistake."""

    def price(self, units: Sequence[Unit]) -> list[Price]:
        raise ZeroDivisionError("a mistake in a cost model")


def interrupt() -> None:
    """Ctrl-C in a terminal: SIGINT to the whole group."""
    os.killpg(os.getpgid(0), signal.SIGINT)
