"""`asp`: extraction as an answer set program, solved by clingo.

    { x(n) } :- reads of n are active.     active(c) :- x(n), n in c.     at most one x per class

In a stable model everything active is founded on something active before it, so acyclicity comes
with the semantics: no levels, no big constants. Roots are required, the price is minimised. What follows
from the structure of the graph (see `structure`) is stated besides, because it makes cores small.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from . import exact
from .check import Choice
from .graph import ChoiceGraph
from .result import Extraction
from .scaling import Scale
from .structure import Step, knots, steps

CORES = ("--opt-strategy=usc,oll,stratify", "--opt-usc-shrink=inv")
"""Core-guided search: unsatisfiable cores, dearest first, each shrunk; raises the bound to a proof."""


def extract(
    graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0, warm_start: Choice | None = None
) -> Extraction:
    """Greedy, reductions, then clingo in a worker process. Raises Infeasible, NoChoiceFound."""
    return exact.extract(graph, "asp", time_limit=time_limit, seed=seed, warm_start=warm_start)


class Encoding:
    """`graph`, which must be in normal form, as a ground program in a clingo Control.

    detours: state also which knots an active knot needs; it helps where most are needed, and burdens the search where few are.
    """

    def __init__(self, graph: ChoiceGraph, options: Sequence[str], seed: int, detours: bool = False):
        import clingo

        self.graph = graph
        self.detours = detours
        self.scale = Scale(graph)
        self.steps = steps(graph)
        self.control = clingo.Control(["--warn=none", f"--seed={seed}", *options])
        with self.control.backend() as backend:
            self._build(backend)

    def _build(self, backend) -> None:
        graph = self.graph
        self.active = [backend.add_atom() for _ in range(graph.n_classes)]
        self.node = [backend.add_atom() for _ in range(graph.n_nodes)]
        self.price = [self.scale.round(x) for x in graph.cost.tolist()]
        reads = [sorted(set(graph.children(n))) for n in range(graph.n_nodes)]
        for n, x in enumerate(self.node):
            backend.add_rule([x], [self.active[d] for d in reads[n]], choice=True)
            backend.add_rule([self.active[int(graph.node_class[n])]], [x])
        for c in range(graph.n_classes):
            nodes = [self.node[n] for n in graph.class_nodes(c)]
            if len(nodes) > 1:
                both = backend.add_atom()
                backend.add_weight_rule([both], 2, [(x, 1) for x in nodes])
                backend.add_rule([], [both])
        for r in graph.roots:
            backend.add_rule([], [-self.active[r]])
        weights = self._knots(backend)
        weights += self._surcharges(backend)
        tainted = exact.tainted(graph) - set(graph.roots)
        if tainted:
            needed = {d: backend.add_atom() for d in tainted}
            for n in range(graph.n_nodes):
                for d in tainted.intersection(reads[n]):
                    backend.add_rule([needed[d]], [self.node[n]])
            for d, atom in needed.items():
                backend.add_rule([], [self.active[d], -atom])
        backend.add_minimize(0, [(x, w) for x, w in weights if w])

    def _knots(self, backend) -> list[tuple[int, int]]:
        """Weighted atoms that add up to the prices of the choice.

        The least price of the entries of a knot is counted on "the knot is active", and again on "two of its entries are
        chosen" and so on: one atom for what else would take a core over all its classes.
        """
        weights: list[tuple[int, int]] = []
        rest = self.price[:]
        active: list[int] = []
        for knot in knots(self.graph):
            if len(knot.classes) == 1:
                active.append(self.active[knot.classes[0]])
            else:
                entries = [self.node[n] for n in knot.entries]
                active.append(backend.add_atom())
                for x in entries:
                    backend.add_rule([active[-1]], [x])
                for c in knot.classes:
                    backend.add_rule([], [self.active[c], -active[-1]])
                least = min(self.price[n] for n in knot.entries)
                if least > 0:
                    weights.append((active[-1], least))
                    for k in range(2, len({int(self.graph.node_class[n]) for n in knot.entries}) + 1):
                        weights.append((backend.add_atom(), least))
                        backend.add_weight_rule([weights[-1][0]], k, [(x, 1) for x in entries])
                    for n in knot.entries:
                        rest[n] -= least
            for other, detours in knot.detours.items() if self.detours else ():
                backend.add_rule([], [active[-1], -active[other], *(-self.node[n] for n in detours)])
        return weights + [w for c in range(self.graph.n_classes) for w in self._stairs(backend, c, rest)]

    def _stairs(self, backend, c: int, price: Sequence[int]) -> list[tuple[int, int]]:
        """Weighted atoms that add up to the price of c's choice, the least price on "c is active".

        Unsatisfiable cores over one atom for a class are far smaller than over all its e-nodes.
        """
        nodes = self.graph.class_nodes(c)
        levels = sorted({price[n] for n in nodes})
        stairs = [(self.active[c], levels[0])] if levels else []
        for low, high in zip(levels, levels[1:]):
            step = backend.add_atom()
            for n in nodes:
                if price[n] >= high:
                    backend.add_rule([step], [self.node[n]])
            stairs.append((step, high - low))
        return stairs

    def _surcharges(self, backend) -> list[tuple[int, int]]:
        """Weighted atoms that add up to the surcharges of the choice; forbidden pairs become constraints."""
        weights = []
        for step in self.steps:
            readers, read = (self._any(backend, nodes) for nodes in (step.readers, step.read))
            if step.high == float("inf"):
                backend.add_rule([], [readers, read])
            else:
                weights.append((backend.add_atom(), self._due(step)))
                backend.add_rule([weights[-1][0]], [readers, read])
        return weights

    def _any(self, backend, nodes: Sequence[int]) -> int:
        """An atom for "one of `nodes` is chosen"."""
        if len(nodes) == 1:
            return self.node[nodes[0]]
        atom = backend.add_atom()
        for n in nodes:
            backend.add_rule([atom], [self.node[n]])
        return atom

    def choice(self, model) -> dict[int, int]:
        """The choice that a model stands for."""
        return {int(self.graph.node_class[n]): n for n, x in enumerate(self.node) if model.is_true(x)}

    def cost(self, choice: Choice) -> int:
        """The scaled price of a choice."""
        chosen = set(choice.values())
        due = (
            s
            for s in self.steps
            if s.high < float("inf") and not chosen.isdisjoint(s.readers) and not chosen.isdisjoint(s.read)
        )
        return sum(self.price[n] for n in chosen) + sum(map(self._due, due))

    def _due(self, step: Step) -> int:
        """The scaled price of a step; steps add up to the rounded surcharge, as `Scale` counts it."""
        return self.scale.round(step.high) - self.scale.round(step.low)

    def solve(self, report, deadline: float, *, assumptions: Sequence[int] = (), at_most: int | None = None) -> str:
        """Minimise until proved ("optimal"), impossible ("infeasible") or late ("limit").

        Scaled prices above `at_most` count as impossible. Choices and lower bounds go to `report`.
        """
        self.control.configuration.solve.opt_mode = "opt" if at_most is None else f"opt,{at_most}"
        last = [0]

        def on_model(model) -> None:
            choice = self.choice(model)
            last[0] = self.cost(choice)
            report.choice(choice)

        def on_unsat(bounds) -> None:
            if bounds:
                report.bound(self.scale.bound(bounds[0]))

        with self.control.solve(
            assumptions=list(assumptions), on_model=on_model, on_unsat=on_unsat, async_=True
        ) as handle:
            if not handle.wait(max(0.0, deadline - time.perf_counter())):
                handle.cancel()
                return "limit"
            result = handle.get()
        if result.unsatisfiable:
            return "infeasible"
        if not result.exhausted:
            return "limit"
        report.bound(self.scale.bound(last[0]))
        return "optimal"


def solve(
    graph: ChoiceGraph,
    report,
    *,
    deadline: float,
    seed: int,
    warm_start: Choice | None,
    options: Sequence[str] = CORES,
    detours: bool = False,
) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    encoding = Encoding(graph, options, seed, detours)
    # Equal prices are allowed: the proof must not hinge on how the warm start was rounded.
    at_most = None if warm_start is None else encoding.cost(warm_start)
    status = encoding.solve(report, deadline, at_most=at_most)
    # The proof is of rounded prices: what it is worth is in the bound reported.
    return "limit" if status == "optimal" else status
