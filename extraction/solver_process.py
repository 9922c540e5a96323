"""Runs a solver in a process of its own (`eqsat/ground/process.py`); it may crash, hang or be missing.

While it runs it sends messages:

{"choice": {"class": node}}   an incumbent
{"bound": x}                  a proved lower bound

Its choices are checked here: the cost is that of `check`, never the solver's own.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from eqsat.ground.process import Limits, Process, WorkerError
from eqsat.ground.registry import load, place_of

from .errors import InvalidExtraction
from .io import from_json, to_json
from .protocol import Solver
from .state import State
from .stopping import POLL, stop_asked

Message = dict[str, Any]

#: Seconds beyond its limit that a solver has to stop before it is killed.
GRACE = 0.3

#: Part of its limit that a solver has in addition to GRACE.
GRACE_SHARE = 0.03


def solve_apart(state: State, solver: Solver, seed: int, time_limit: float) -> None:
    """Runs `solver` on the graph of `state` from its incumbent, and improves `state` in place.

    Ends when the optimum is proved, the solver ends, or the caller wants it (`stopping`).
    Ctrl-C stops the process and is raised again.
    time_limit: seconds of wall time.
    """
    if time_limit <= 0:
        return
    process = Process(type(solver).__module__, env={"PYTHONPATH": _import_path(solver)})
    inbox: queue.Queue[Message] = queue.Queue()
    job = (solver_as_json(solver), to_json(state.graph), time_limit, seed, state.incumbent)
    limits = Limits(seconds=time_limit * (1 + GRACE_SHARE) + GRACE)

    def run() -> None:
        try:
            inbox.put({"end": process.call(solve, *job, limits=limits, on_message=inbox.put)})
        except (WorkerError, OSError) as error:
            inbox.put({"failure": str(error)})
        process.close()  # some solvers hang or crash in their destructors

    threading.Thread(target=run, daemon=True).start()
    try:
        while not state.proved and not stop_asked():
            try:
                message = inbox.get(timeout=POLL)
            except queue.Empty:
                continue
            if not _receive(state, message):
                break
    finally:
        process.end()  # also where the thread has not started it yet


def _import_path(solver: Solver) -> str:
    """Returns a PYTHONPATH to this package and the solver's module, which may be a file that only we know."""
    module = sys.modules[type(solver).__module__]
    depth = module.__name__.count(".") + hasattr(module, "__path__")
    file = Path(module.__file__ or "").resolve()
    homes = [str(Path(__file__).resolve().parents[1]), str(file.parents[depth])]
    return os.pathsep.join([*dict.fromkeys(homes), *filter(None, [os.environ.get("PYTHONPATH")])])


def _receive(state: State, message: Message) -> bool:
    """Takes in one message; returns whether the process goes on."""
    if "choice" in message:
        try:
            state.choice({int(c): n for c, n in message["choice"].items()})
        except InvalidExtraction as error:
            state.failure = f"an invalid choice: {error}"
            return False
    elif "bound" in message:
        state.bound(message["bound"])
    elif "end" in message:
        state.end(message["end"])
        return False
    else:
        state.failure = message["failure"]
        return False
    return True


def solver_as_json(solver: Solver) -> dict[str, Any]:
    """Returns a solver's class and options, the argument of `solver_of`."""
    return {"class": place_of(type(solver)), "options": asdict(solver)}


def solver_of(data: dict[str, Any]) -> Solver:
    """Returns the solver of `solver_as_json`.

    Raises InputError if its module is not there.
    """
    solver: Solver = load(data["class"])(**data["options"])
    return solver


def solve(
    solver: dict[str, Any],
    graph: dict[str, Any],
    time_limit: float,
    seed: int,
    warm_start: Mapping[str, int] | None,
    send: Callable[[Message], None],
) -> str:
    """Runs a solver, as JSON, on a graph, as JSON, and returns how it ended.

    time_limit: seconds from now.
    send: called with each message.
    """
    deadline = time.perf_counter() + time_limit
    return solver_of(solver).solve(
        from_json(graph),
        Messages(send),
        deadline=deadline,
        seed=seed,
        warm_start=None if warm_start is None else {int(c): n for c, n in warm_start.items()},
    )


class Messages:
    """A SolverReport that sends what is reported."""

    def __init__(self, send: Callable[[Message], None]):
        self._send = send

    def choice(self, choice: dict[int, int]) -> None:
        self._send({"choice": choice})

    def bound(self, value: float) -> None:
        self._send({"bound": value})
