"""Run solvers against each other in processes of their own; any of them may crash, hang or be missing.

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
from dataclasses import asdict, dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from .check import Choice, check
from .errors import InvalidExtraction
from .graph import ChoiceGraph
from .io import to_json
from .protocol import Solver
from .result import closes

GRACE, GRACE_SHARE = 0.3, 0.03
"""Seconds, and part of its time, beyond its limit that a solver has to stop before it is killed."""


@dataclass
class State:
    """What is known of one graph so far; shared by successive races.

    choice, cost : the incumbent (None, inf: there is none)
    bound        : no choice costs less
    infeasible   : it is proved that there is no choice
    reported     : any solver has reported a choice or a bound
    failures     : solver, as text -> why it was of no use
    """

    graph: ChoiceGraph
    integral: bool
    choice: dict[int, int] | None = None
    cost: float = float("inf")
    bound: float = float("-inf")
    infeasible: bool = False
    reported: bool = False
    failures: dict[str, str] = field(default_factory=dict)
    on_better: Callable[[Choice, float], None] = lambda choice, cost: None

    @property
    def proved(self) -> bool:
        """Whether nothing is left to find out."""
        return self.infeasible or (self.choice is not None and closes(self.bound, self.cost, self.integral))

    def offer(self, choice: Choice) -> bool:
        """Take `choice` if it is valid and better. Raises InvalidExtraction."""
        cost = check(self.graph, choice)
        if cost >= self.cost:
            return False
        self.choice, self.cost = dict(choice), cost
        self.on_better(choice, cost)
        return True


def solver_as_json(solver: Solver) -> dict[str, Any]:
    """A solver's class and options, as `solver_of` takes them."""
    kind = type(solver)
    return {"module": kind.__module__, "class": kind.__qualname__, "options": asdict(solver)}


def solver_of(data: dict[str, Any]) -> Solver:
    """The solver of `solver_as_json`. Raises ImportError if its module is not there."""
    solver: Solver = getattr(import_module(data["module"]), data["class"])(**data["options"])
    return solver


Inbox = queue.Queue["tuple[SolverProcess, dict[str, Any]]"]
"""Messages of all processes, with who sent them."""


class SolverProcess:
    """One solver at work on one graph."""

    def __init__(
        self,
        solver: Solver,
        graph_json: dict[str, Any],
        inbox: Inbox,
        *,
        time_limit: float,
        seed: int,
        warm_start: Choice | None,
    ):
        self.solver = solver
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
        job = {
            "solver": solver_as_json(solver),
            "graph": graph_json,
            "time_limit": time_limit,
            "seed": seed,
            "warm_start": warm_start,
        }
        threading.Thread(target=self._exchange, args=(json.dumps(job), inbox), daemon=True).start()

    def _exchange(self, job: str, inbox: Inbox) -> None:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None and stdout is not None
        try:
            stdin.write(job + "\n")
            stdin.flush()
            for line in stdout:
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
    """A solver, and when it runs: seconds on the clock of perf_counter."""

    solver: Solver
    start: float
    stop: float


def race(state: State, entrants: Sequence[Entrant], seed: int) -> None:
    """Run the entrants, each in its time, until one proves the optimum or all are done.

    Each starts from the best choice known by then. Improves `state` in place; Ctrl-C stops the
    processes and is raised again.
    """
    inbox: Inbox = queue.Queue()
    graph_json = to_json(state.graph)
    waiting = sorted(entrants, key=lambda e: e.start)
    running: set[SolverProcess] = set()
    try:
        while (waiting or running) and not state.proved:
            now = time.perf_counter()
            while waiting and (waiting[0].start <= now or not running):
                # Nobody at work is no reason to wait: the next one starts early.
                running |= _started(waiting.pop(0), now, state, graph_json, inbox, seed)
            if not running:
                continue
            until = min([p.kill_at for p in running] + [e.start for e in waiting[:1]])
            try:
                process, message = inbox.get(timeout=max(0.0, until - now))
            except queue.Empty:
                _stop_late(state, running)
                continue
            if process in running and not _receive(state, process, message):
                running.discard(process)
                process.stop()
    finally:
        for p in running:
            p.stop()


def _started(
    entrant: Entrant, now: float, state: State, graph_json: dict[str, Any], inbox: Inbox, seed: int
) -> set[SolverProcess]:
    """The entrant's process, if its time is not over and a process can be started."""
    if entrant.stop <= now:
        return set()
    left = entrant.stop - now
    try:
        return {SolverProcess(entrant.solver, graph_json, inbox, seed=seed, warm_start=state.choice, time_limit=left)}
    except OSError as error:
        state.failures[str(entrant.solver)] = f"no process: {error}"
        return set()


def _stop_late(state: State, running: set[SolverProcess]) -> None:
    """Stop the processes that are beyond their time."""
    for p in [p for p in running if p.kill_at <= time.perf_counter()]:
        state.failures.setdefault(str(p.solver), "did not stop at its time limit")
        running.discard(p)
        p.stop()


def _receive(state: State, process: SolverProcess, message: dict[str, Any]) -> bool:
    """Take in one message; whether the process goes on and is still believed."""
    solver = str(process.solver)
    if "choice" in message:
        try:
            state.offer({int(c): n for c, n in message["choice"].items()})
        except InvalidExtraction as error:
            state.failures[solver] = f"an invalid choice: {error}"
            return False
        state.reported = True
        return True
    if "bound" in message:
        state.reported = True
        state.bound = max(state.bound, message["bound"])
        return True
    if message["end"] == "infeasible":
        state.infeasible = state.choice is None
    elif message["end"] == "optimal":
        state.bound = max(state.bound, state.cost)
    elif message["end"] != "limit":
        state.failures[solver] = message.get("message", message["end"])
    return False
