"""Run solvers against each other in worker processes; any of them may crash, hang or be missing.

Everything a solver says is checked here: a choice counts only after `check`, and never at the cost
that the solver claims.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .check import Choice, check
from .errors import InvalidExtraction
from .graph import ChoiceGraph
from .io import to_json
from .result import closes

GRACE, GRACE_SHARE = 0.3, 0.03
"""Seconds, and part of its time, beyond its limit that a solver has to stop before it is killed."""


@dataclass
class Standing:
    """What is known of one graph so far; shared by successive races."""

    graph: ChoiceGraph
    integral: bool
    choice: dict[int, int] | None = None
    cost: float = float("inf")
    bound: float = float("-inf")
    infeasible: bool = False
    heard: bool = False  # any solver's choice or bound
    failures: dict[str, str] = field(default_factory=dict)
    on_better: Callable[[Choice, float], None] = lambda choice, cost: None

    @property
    def proved(self) -> bool:
        """Whether nothing is left to find out."""
        return self.infeasible or (self.choice is not None and closes(self.bound, self.cost, self.integral))

    def offer(self, choice: Choice) -> bool:
        """Take `choice` if it is valid and better."""
        cost = check(self.graph, choice)
        if cost >= self.cost:
            return False
        self.choice, self.cost = dict(choice), cost
        self.on_better(choice, cost)
        return True


class Worker:
    """One solver process at work on one graph."""

    def __init__(
        self,
        module: str,
        graph_json: dict,
        inbox: queue.Queue,
        *,
        time_limit: float,
        seed: int,
        warm_start: Choice | None,
    ):
        self.module = module
        self.kill_at = time.perf_counter() + time_limit * (1 + GRACE_SHARE) + GRACE
        paths = [str(Path(__file__).resolve().parent.parent), os.environ.get("PYTHONPATH", "")]
        self._process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}._worker"],
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(p for p in paths if p)},
        )
        job = {"module": module, "graph": graph_json, "time_limit": time_limit, "seed": seed, "warm_start": warm_start}
        threading.Thread(target=self._talk, args=(json.dumps(job), inbox), daemon=True).start()

    def _talk(self, job: str, inbox: queue.Queue) -> None:
        try:
            self._process.stdin.write(job + "\n")
            self._process.stdin.flush()
            for line in self._process.stdout:
                inbox.put((self, json.loads(line)))
        except (OSError, ValueError):
            pass  # it died, or garbled its last words; the end below says so
        inbox.put((self, {"end": "error", "message": "the process died"}))

    def stop(self) -> None:
        """Kill the process, if it still runs."""
        self._process.kill()
        self._process.wait()


@dataclass(frozen=True)
class Entrant:
    """A solver, a module of this package, and when it runs: seconds on the clock of perf_counter."""

    solver: str
    start: float
    stop: float


def race(standing: Standing, entrants: Sequence[Entrant], seed: int) -> None:
    """Run the entrants, each in its time, until one proves the optimum or all are done.

    Each starts from the best choice known by then. Improves `standing` in place; Ctrl-C stops the
    workers and is raised again.
    """
    inbox: queue.Queue = queue.Queue()
    graph_json = to_json(standing.graph)
    waiting = sorted(entrants, key=lambda e: e.start)
    running: set[Worker] = set()
    try:
        while (waiting or running) and not standing.proved:
            now = time.perf_counter()
            while waiting and (waiting[0].start <= now or not running):
                # Nobody at work is no reason to wait: the next one starts early.
                entrant = waiting.pop(0)
                module = f"{__package__}.{entrant.solver}"
                try:
                    if entrant.stop > now:
                        running.add(
                            Worker(
                                module,
                                graph_json,
                                inbox,
                                seed=seed,
                                warm_start=standing.choice,
                                time_limit=entrant.stop - now,
                            )
                        )
                except OSError as error:
                    standing.failures[module] = f"no process: {error}"
            if not running:
                continue
            until = min([w.kill_at for w in running] + [e.start for e in waiting[:1]])
            try:
                worker, message = inbox.get(timeout=max(0.0, until - now))
            except queue.Empty:
                for w in [w for w in running if w.kill_at <= time.perf_counter()]:
                    standing.failures.setdefault(w.module, "did not stop at its time limit")
                    running.discard(w)
                    w.stop()
                continue
            if worker in running and not _hear(standing, worker, message):
                running.discard(worker)
                worker.stop()
    finally:
        for w in running:
            w.stop()


def _hear(standing: Standing, worker: Worker, message: dict) -> bool:
    """Take in one message; whether the worker goes on and is still believed."""
    if "choice" in message:
        try:
            standing.offer({int(c): n for c, n in message["choice"].items()})
        except InvalidExtraction as error:
            standing.failures[worker.module] = f"an invalid choice: {error}"
            return False
        standing.heard = True
        return True
    if "bound" in message:
        standing.heard = True
        standing.bound = max(standing.bound, message["bound"])
        return True
    if message["end"] == "infeasible":
        standing.infeasible = standing.choice is None
    elif message["end"] == "optimal":
        standing.bound = max(standing.bound, standing.cost)
    elif message["end"] != "limit":
        standing.failures[worker.module] = message.get("message", message["end"])
    return False
