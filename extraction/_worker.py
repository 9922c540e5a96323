"""A solver at work, in a process of its own (`eqsat/ground/process.py`).

While it runs it sends messages:

{"choice": {"class": node}}   an incumbent
{"bound": x}                  a proved lower bound
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from eqsat.ground.registry import load, place_of

from .io import from_json
from .protocol import Solver

Message = dict[str, Any]


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
