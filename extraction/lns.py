"""`lns`: anytime neighbourhood search. Free a ball of classes, fix the rest, solve exactly, repeat.

One clingo program holds the whole graph; what is fixed is fixed by assumptions, so what clingo learns
in one neighbourhood serves the next. Only strictly better choices are looked for.
"""

from __future__ import annotations

import random
import time
from collections import deque

from . import exact
from .asp import Encoding
from .check import Choice, check, reachable
from .dag_greedy import extract as greedy
from .errors import NoChoiceFound
from .graph import ChoiceGraph
from .result import Extraction

OPTIONS = ("--opt-strategy=usc,oll,stratify",)
FIRST_SIZE = 40
"""Classes with a choice to make in the first neighbourhoods."""

PATIENCE = 2.0
"""Seconds for one neighbourhood; fewer classes are freed if it was not enough."""

GROW, SHRINK = 1.1, 0.8


def extract(graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0,
            warm_start: Choice | None = None) -> Extraction:
    """Greedy, reductions, then neighbourhood search in a worker process until time is up.

    Raises Infeasible, NoChoiceFound.
    """
    return exact.extract(graph, "lns", time_limit=time_limit, seed=seed, warm_start=warm_start)


def solve(graph: ChoiceGraph, report, *, deadline: float, seed: int, warm_start: Choice | None) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    encoding = Encoding(graph, OPTIONS, seed)
    if warm_start is None:
        try:
            warm_start = greedy(graph, time_limit=deadline - time.perf_counter(), seed=seed).choice
        except NoChoiceFound:
            return encoding.solve(report, deadline)
    best = reachable(graph, warm_start)
    cost = check(graph, best)
    neighbours = Neighbours(graph, random.Random(seed))
    size = float(FIRST_SIZE)
    found: list[dict[int, int]] = []

    class Keep:
        """Collects choices; a bound of a neighbourhood means nothing for the whole."""

        choice = staticmethod(found.append)
        bound = staticmethod(lambda value: None)

    while (now := time.perf_counter()) < deadline:
        found.clear()
        free = neighbours.ball(best, int(size))
        fixed = [-encoding.node[n] for c, m in best.items() if c not in free
                 for n in graph.class_nodes(c) if n != m]
        status = encoding.solve(Keep, min(deadline, now + PATIENCE), assumptions=fixed,
                                at_most=encoding.cost(best) - 1)
        if found:
            better = reachable(graph, found[-1])
            better_cost = check(graph, better)
            if better_cost < cost:
                best, cost = better, better_cost
                report.choice(best)
        if status == "limit":
            size = max(2.0, size * SHRINK)
        elif time.perf_counter() - now < PATIENCE / 4:
            size *= GROW
            if size > graph.n_classes and not fixed:
                return "limit"  # everything was free and nothing better exists in scaled prices
    return "limit"


class Neighbours:
    """Balls in the undirected class graph."""

    def __init__(self, graph: ChoiceGraph, rng: random.Random):
        self.rng = rng
        self.adjacent: list[set[int]] = [set() for _ in range(graph.n_classes)]
        for n in range(graph.n_nodes):
            c = int(graph.node_class[n])
            for d in graph.children(n):
                self.adjacent[c].add(d)
                self.adjacent[d].add(c)
        self.open = [len(graph.class_nodes(c)) > 1 for c in range(graph.n_classes)]

    def ball(self, choice: Choice, size: int) -> set[int]:
        """Classes around a random active one, `size` of them active and with a choice to make."""
        start = self.rng.choice([c for c in choice if self.open[c]] or list(choice))
        ball, queue, count = {start}, deque([start]), 1
        while queue and count < size:
            near = list(self.adjacent[queue.popleft()] - ball)
            self.rng.shuffle(near)
            for d in near:
                ball.add(d)
                queue.append(d)
                count += d in choice and self.open[d]
                if count >= size:
                    break
        return ball
