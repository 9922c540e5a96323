"""Branch and bound in plain Python, for reduced graphs too small to pay for a solver process."""

from __future__ import annotations

import math

from . import exact
from .graph import ChoiceGraph
from .stopping import is_over

#: E-nodes above which branch and bound is not tried.
MAX_NODES = 120

#: Decisions after which it gives up: about a tenth of a second.
MAX_STEPS = 20_000


class GiveUp(Exception):
    """The step limit or the deadline was reached."""


def solve(graph: ChoiceGraph, upper_bound: float = math.inf, deadline: float = math.inf) -> dict[int, int] | None:
    """Returns the cheapest choice below `upper_bound` of a graph in normal form, None if there is
    none.

    Raises GiveUp after MAX_STEPS decisions or at `deadline` (`stopping.clock`).
    """
    search = _BranchAndBound(graph, upper_bound, deadline)
    search.run(list(graph.roots), 0.0)
    return search.best


class _BranchAndBound:
    """Depth-first search over the active classes, the ones with the fewest e-nodes first.

    floor     : [class]: the least price of its e-nodes
    open_floor: the sum of the floors of active undecided classes
    credit    : the sum of the negative floors of inactive classes
    """

    def __init__(self, graph: ChoiceGraph, upper_bound: float, deadline: float):
        self.graph = graph
        self.limit = upper_bound
        self.deadline = deadline
        self.best: dict[int, int] | None = None
        self.steps = 0
        self.price = graph.cost.tolist()
        self.reads = [tuple(dict.fromkeys(graph.children(n))) for n in range(graph.n_nodes)]
        self.surcharges = exact.surcharges(graph)
        self.nodes = [sorted(graph.class_nodes(c), key=self.price.__getitem__) for c in range(graph.n_classes)]
        self.floor = [self.price[nodes[0]] if nodes else math.inf for nodes in self.nodes]
        self.credit = sum(min(0.0, f) for f in self.floor)
        self.choice: dict[int, int] = {}
        self.active: set[int] = set(graph.roots)
        # An inactive class may still become active and lower the cost by its negative floor.
        self.open_floor = 0.0
        for c in graph.roots:
            self._open(c)

    def _open(self, c: int) -> None:
        self.open_floor += self.floor[c]
        self.credit -= min(0.0, self.floor[c])

    def _shut(self, c: int) -> None:
        self.open_floor -= self.floor[c]
        self.credit += min(0.0, self.floor[c])

    def run(self, agenda: list[int], paid: float) -> None:
        """Decides the classes of `agenda`, which are active and undecided, and all that they
        activate.

        paid: the cost of the decisions so far.
        """
        self.steps += 1
        if self.steps > MAX_STEPS or is_over(self.deadline):
            raise GiveUp
        if not agenda:
            if paid < self.limit - 1e-12 * max(1.0, abs(paid)):
                self.limit, self.best = paid, dict(self.choice)
            return
        c = min(agenda, key=lambda d: len(self.nodes[d]))
        rest = [d for d in agenda if d != c]
        self.open_floor -= self.floor[c]
        for n in self.nodes[c]:
            self.choice[c] = n
            spent = paid + self.price[n] + self._surcharge(c, n)
            fresh = [d for d in self.reads[n] if d not in self.active]
            if spent < math.inf and not self._cyclic(c):
                self.active.update(fresh)
                for d in fresh:
                    self._open(d)
                slack = 1e-12 * max(1.0, abs(spent))
                if spent + self.open_floor + self.credit < self.limit - slack:
                    self.run(rest + fresh, spent)
                for d in fresh:
                    self._shut(d)
                self.active.difference_update(fresh)
            del self.choice[c]
        self.open_floor += self.floor[c]

    def _surcharge(self, c: int, n: int) -> float:
        """Returns the surcharges between e-node n and the classes decided before."""
        if not self.surcharges:
            return 0.0
        total = 0.0
        for d in self.reads[n]:
            if d in self.choice and d != c:
                total += self.surcharges.get((n, d), {}).get(self.choice[d], 0.0)
        for r in self.choice.values():
            if r != n:
                total += self.surcharges.get((r, c), {}).get(n, 0.0)
        return total

    def _cyclic(self, c: int) -> bool:
        seen: set[int] = set()
        stack = list(self.reads[self.choice[c]])
        while stack:
            d = stack.pop()
            if d == c:
                return True
            if d not in seen and d in self.choice:
                seen.add(d)
                stack.extend(self.reads[self.choice[d]])
        return False
