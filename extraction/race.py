"""Runs solvers against each other in processes of their own; any may crash, hang or be missing.

Choices from solvers are checked here: the cost is that of `check`, never the solver's own.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eqsat.ground.process import Limits, Process, WorkerError, starved_seconds

from ._worker import solve, solver_as_json
from .check import Choice, check
from .errors import InvalidExtraction
from .graph import ChoiceGraph
from .io import to_json
from .protocol import Solver
from .result import closes
from .stopping import stop_asked

#: Seconds beyond its limit that a solver has to stop before it is killed.
GRACE = 0.3

#: Part of its limit that a solver has in addition to GRACE.
GRACE_SHARE = 0.03

#: Seconds between checks of whether a race should end while no solver sends a message.
POLL = 0.1


@dataclass
class State:
    """The known facts about one graph; shared by successive races.

    choice    : the incumbent, or None
    cost      : its cost, or inf
    bound     : no choice costs less
    infeasible: whether it is proved that there is no choice
    reported  : whether any solver has reported a choice or a bound
    failures  : {solver as text: reason of its failure}
    on_better : called with each new incumbent and its cost
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
        """Whether the incumbent is proved optimal, or it is proved that there is no choice."""
        return self.infeasible or (self.choice is not None and closes(self.bound, self.cost, self.integral))

    def offer(self, choice: Choice) -> bool:
        """Takes `choice` as the incumbent if it is valid and better; returns whether it was taken.

        Raises InvalidExtraction.
        """
        cost = check(self.graph, choice)
        if cost >= self.cost:
            return False
        self.choice, self.cost = dict(choice), cost
        self.on_better(choice, cost)
        return True


#: Messages of all processes, each with the process that sent it.
Inbox = queue.Queue["tuple[SolverProcess, dict[str, Any]]"]


def _import_path(solver: Solver) -> str:
    """Returns the PYTHONPATH on which a process finds this package and the solver's module.

    The module may be a user's file that only this process knows.
    """
    module = sys.modules[type(solver).__module__]
    depth = module.__name__.count(".") + hasattr(module, "__path__")
    file = Path(module.__file__ or "").resolve()
    homes = [str(Path(__file__).resolve().parents[1]), str(file.parents[depth])]
    return os.pathsep.join([*dict.fromkeys(homes), *filter(None, [os.environ.get("PYTHONPATH")])])


class SolverProcess:
    """One solver at work on one graph; `pid` is its process.

    The constructor raises OSError if no process can be started.
    """

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
        self._process = Process(type(solver).__module__, env={"PYTHONPATH": _import_path(solver)})
        self.pid = self._process.start().pid
        job = (solver_as_json(solver), graph_json, time_limit, seed, warm_start)
        limits = Limits(seconds=time_limit * (1 + GRACE_SHARE) + GRACE)
        threading.Thread(target=self._run, args=(job, limits, inbox), daemon=True).start()

    def _run(self, job: tuple[Any, ...], limits: Limits, inbox: Inbox) -> None:
        def pass_on(message: Any) -> None:
            inbox.put((self, message))

        try:
            pass_on({"end": self._process.call(solve, *job, limits=limits, on_message=pass_on)})
        except (WorkerError, OSError) as error:
            pass_on({"end": "error", "message": str(error)})
        self._process.close()  # some solvers hang or crash in their destructors

    def stop(self) -> None:
        """Kills the process, if it still runs."""
        self._process.kill()


@dataclass(frozen=True)
class Entrant:
    """A solver, and when it runs in a race.

    start, stop: seconds in which solvers could work (`WorkClock`).
    """

    solver: Solver
    start: float
    stop: float


class WorkClock:
    """Seconds that solvers would have taken on a machine that does nothing else.

    Seconds in which they wait for a core do not count, unless they wait for each other.
    Seconds in which no solver is at work do not count either.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = time.perf_counter()
        self._starved: dict[int, float] = {}

    def tick(self, pids: Sequence[int], now: float) -> None:
        """Advances to `now`.

        pids: the processes that have been at work since the last tick.
        """
        passed, self._last = now - self._last, now
        starved = {pid: starved_seconds(pid) for pid in pids}
        waited = sum(s - self._starved.get(pid, 0.0) for pid, s in starved.items())
        self._starved = starved
        if passed > 0 and pids:
            share = (1 - waited / len(pids) / passed) * max(1.0, len(pids) / (os.cpu_count() or 1))
            self.seconds += passed * min(1.0, max(0.0, share))


def race(
    state: State,
    entrants: Sequence[Entrant],
    seed: int,
    ends: Callable[[float, float, float, int], bool] = lambda cost, bound, worked, begun: False,
    patience: float = 1.0,
) -> None:
    """Runs the entrants, each in its time; improves `state` in place.

    Ends when the optimum is proved, all are done, the caller wants it (`stopping`) or `ends` is
    true.
    Each entrant starts from the best choice known by then.
    Ctrl-C stops the processes and is raised again.

    ends(cost, bound, worked, begun): whether to end.
    It gets the best cost and bound, the seconds that solvers could work, and how many have begun.
    It is not called before one has begun: loading a solver takes seconds on a busy machine.

    patience: how many times its working seconds a solver may take in wall time, on a busy machine.
    The solver is told the longer limit and ended by the working seconds.
    """
    inbox: Inbox = queue.Queue()
    graph_json = to_json(state.graph)
    waiting = sorted(entrants, key=lambda e: e.start)
    running: dict[SolverProcess, float] = {}  # process -> when it is stopped
    begun: set[SolverProcess] = set()
    clock = WorkClock()
    try:
        while (waiting or running) and not state.proved and not stop_asked():
            now = time.perf_counter()
            clock.tick([p.pid for p in running if p in begun], now)
            for late in [p for p, stop in running.items() if clock.seconds > stop]:
                late.stop()
                del running[late]
            if begun and ends(state.cost, state.bound, clock.seconds, len(begun)):
                break
            while waiting and (waiting[0].start <= clock.seconds or not running):
                # If no solver is at work, the next one starts early.
                entrant = waiting.pop(0)
                for p in _started(entrant, patience * (entrant.stop - clock.seconds), state, graph_json, inbox, seed):
                    running[p] = entrant.stop
            if not running:
                continue
            try:
                process, message = inbox.get(
                    timeout=min(POLL, max(0.0, waiting[0].start - clock.seconds)) if waiting else POLL
                )
            except queue.Empty:
                continue
            if "begun" in message:
                begun.add(process)
            elif process in running and not _receive(state, process, message):
                del running[process]
                process.stop()
    finally:
        for p in running:
            p.stop()


def _started(
    entrant: Entrant, left: float, state: State, graph_json: dict[str, Any], inbox: Inbox, seed: int
) -> set[SolverProcess]:
    """Returns the entrant's process in a set, which is empty if no process could be started.

    left: wall seconds for the solver; none is started for 0 or less.
    """
    if left <= 0:
        return set()
    try:
        return {SolverProcess(entrant.solver, graph_json, inbox, seed=seed, warm_start=state.choice, time_limit=left)}
    except OSError as error:
        state.failures[str(entrant.solver)] = f"no process: {error}"
        return set()


def _receive(state: State, process: SolverProcess, message: dict[str, Any]) -> bool:
    """Takes in one message; returns whether the process goes on."""
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
