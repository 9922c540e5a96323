"""Runs a solver in a process of its own; it may crash, hang or be missing.

Its choices are checked here: the cost is that of `check`, never the solver's own.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

from eqsat.ground.process import Limits, Process, WorkerError

from ._worker import solve, solver_as_json
from .errors import InvalidExtraction
from .io import to_json
from .protocol import Solver
from .state import State
from .stopping import POLL, stop_asked

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
    inbox: queue.Queue[dict[str, Any]] = queue.Queue()
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
            if not _receive(state, str(solver), message):
                break
    finally:
        process.end()  # also where the thread has not started it yet


def _import_path(solver: Solver) -> str:
    """Returns the PYTHONPATH on which a process finds this package and the solver's module.

    The module may be a user's file that only this process knows.
    """
    module = sys.modules[type(solver).__module__]
    depth = module.__name__.count(".") + hasattr(module, "__path__")
    file = Path(module.__file__ or "").resolve()
    homes = [str(Path(__file__).resolve().parents[1]), str(file.parents[depth])]
    return os.pathsep.join([*dict.fromkeys(homes), *filter(None, [os.environ.get("PYTHONPATH")])])


def _receive(state: State, solver: str, message: dict[str, Any]) -> bool:
    """Takes in one message; returns whether the process goes on."""
    if "choice" in message:
        try:
            state.choice({int(c): n for c, n in message["choice"].items()})
        except InvalidExtraction as error:
            state.failures[solver] = f"an invalid choice: {error}"
            return False
    elif "bound" in message:
        state.bound(message["bound"])
    elif "end" in message:
        state.end(message["end"])
        return False
    else:
        state.failures[solver] = message["failure"]
        return False
    return True
