"""`asp`: extraction as an answer set program, solved by clingo.

    { x(n) } :- reads of n are active.     active(c) :- x(n), n in c.     at most one x per class

In a stable model everything active is founded on something active before it, so acyclicity comes
with the semantics: no levels, no big constants. Roots are required, the price is minimised.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from . import exact
from .check import Choice
from .graph import ChoiceGraph
from .result import Extraction
from .scaling import Scale

CORES = ("--opt-strategy=usc,oll,stratify", "--opt-usc-shrink=inv")
"""Core-guided search: unsatisfiable cores, cheapest last, each shrunk; raises the bound to a proof."""


def extract(graph: ChoiceGraph, *, time_limit: float = 10.0, seed: int = 0,
            warm_start: Choice | None = None) -> Extraction:
    """Greedy, reductions, then clingo in a worker process. Raises Infeasible, NoChoiceFound."""
    return exact.extract(graph, "asp", time_limit=time_limit, seed=seed, warm_start=warm_start)


class Encoding:
    """`graph`, which must be in normal form, as a ground program in a clingo Control."""

    def __init__(self, graph: ChoiceGraph, options: Sequence[str], seed: int):
        import clingo

        self.graph = graph
        self.scale = Scale(graph)
        self.control = clingo.Control(["--warn=none", f"--seed={seed}", *options])
        with self.control.backend() as backend:
            self._build(backend)

    def _build(self, backend) -> None:
        graph = self.graph
        self.active = [backend.add_atom() for _ in range(graph.n_classes)]
        self.node = [backend.add_atom() for _ in range(graph.n_nodes)]
        weights: list[tuple[int, int]] = []
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
            weights.extend(self._stairs(backend, c))
        for r in graph.roots:
            backend.add_rule([], [-self.active[r]])
        for (n, m), surcharge in graph.pair_costs.items():
            pair = backend.add_atom()
            backend.add_rule([pair], [self.node[n], self.node[m]])
            weights.append((pair, self.scale.round(surcharge)))
        for n, m in graph.forbidden_pairs:
            backend.add_rule([], [self.node[n], self.node[m]])
        tainted = exact.tainted(graph) - set(graph.roots)
        if tainted:
            needed = {d: backend.add_atom() for d in tainted}
            for n in range(graph.n_nodes):
                for d in tainted.intersection(reads[n]):
                    backend.add_rule([needed[d]], [self.node[n]])
            for d, atom in needed.items():
                backend.add_rule([], [self.active[d], -atom])
        backend.add_minimize(0, [(x, w) for x, w in weights if w])

    def _stairs(self, backend, c: int) -> list[tuple[int, int]]:
        """Weighted atoms that add up to the price of c's choice, the least price on "c is active".

        Unsatisfiable cores over one atom for a class are far smaller than over all its e-nodes.
        """
        price = {n: self.scale.round(float(self.graph.cost[n])) for n in self.graph.class_nodes(c)}
        levels = sorted(set(price.values()))
        stairs = [(self.active[c], levels[0])] if levels else []
        for low, high in zip(levels, levels[1:]):
            step = backend.add_atom()
            for n, p in price.items():
                if p >= high:
                    backend.add_rule([step], [self.node[n]])
            stairs.append((step, high - low))
        return stairs

    def choice(self, model) -> dict[int, int]:
        """The choice that a model stands for."""
        return {int(self.graph.node_class[n]): n for n, x in enumerate(self.node) if model.is_true(x)}

    def cost(self, choice: Choice) -> int:
        """The scaled price of a choice."""
        graph, chosen = self.graph, set(choice.values())
        total = sum(self.scale.round(float(graph.cost[n])) for n in chosen)
        return total + sum(self.scale.round(w) for (n, m), w in graph.pair_costs.items()
                           if n in chosen and m in chosen)

    def solve(self, report, deadline: float, *, assumptions: Sequence[int] = (),
              at_most: int | None = None) -> str:
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

        with self.control.solve(assumptions=list(assumptions), on_model=on_model, on_unsat=on_unsat,
                                async_=True) as handle:
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


def solve(graph: ChoiceGraph, report, *, deadline: float, seed: int, warm_start: Choice | None,
          options: Sequence[str] = CORES) -> str:
    """Runs in a worker process; `graph` is in normal form."""
    encoding = Encoding(graph, options, seed)
    # Equal prices are allowed: the proof must not hinge on how the warm start was rounded.
    at_most = None if warm_start is None else encoding.cost(warm_start)
    status = encoding.solve(report, deadline, at_most=at_most)
    # The proof is of rounded prices: what it is worth is in the bound reported.
    return "limit" if status == "optimal" else status
