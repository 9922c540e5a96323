"""`cpsat`: extraction as a constraint program, solved by CP-SAT of OR-tools (an optional extra).

It has the basic constraints of `ilp` over whole-number prices.
Acyclicity is by integer levels within each strongly connected component.
Each edge of a choice is enforced by its own literal, so no big constants are needed.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from . import exact
from .check import Choice
from .components import cyclic_component_of
from .graph import ChoiceGraph
from .protocol import Ending, SolverReport
from .scaling import Scale

#: Largest scaled price: CP-SAT sums in 64 bits; this leaves room for millions of terms.
LARGEST = 2**40


@dataclass(frozen=True)
class CpSat:
    """CP-SAT, with one worker."""

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        from ortools.sat.python import cp_model

        program = ConstraintProgram(graph)
        if warm_start is not None:
            program.hint(warm_start)

        class Improved(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
            def on_solution_callback(self) -> None:
                report.choice(program.choice(self.boolean_value))

        solver = cp_model.CpSolver()
        solver.parameters.num_workers = 1
        solver.parameters.random_seed = seed
        solver.parameters.max_time_in_seconds = max(0.0, deadline - time.perf_counter())
        solver.best_bound_callback = lambda value: report.bound(program.scale.bound(value))
        status = solver.solve(program.model, Improved())
        if status == cp_model.INFEASIBLE:
            return "infeasible"
        report.bound(program.scale.bound(solver.best_objective_bound))
        return "limit"


extract = exact.extractor("cpsat", CpSat())


class ConstraintProgram:
    """`graph`, which must be in normal form, as a model of CP-SAT.

    It has a literal for each e-node, and one for each class that is true if the class is active.
    """

    def __init__(self, graph: ChoiceGraph):
        from ortools.sat.python import cp_model

        self.graph = graph
        self.scale = Scale(graph, LARGEST)
        self.model: Any = cp_model.CpModel()
        self.chosen = [self.model.new_bool_var("") for _ in range(graph.n_nodes)]
        self.active = [self.model.new_bool_var("") for _ in range(graph.n_classes)]
        self.owner: list[int] = graph.node_class.tolist()
        self.reads = [sorted(set(graph.children(n))) for n in range(graph.n_nodes)]
        self._classes()
        self._levels()
        self._minimize()

    def _classes(self) -> None:
        """Adds the constraints of classes.

        An active class has exactly one e-node, any other none.
        Roots are active, and so are all classes that a chosen e-node reads.
        An active tainted class is read by a chosen e-node.
        """
        readers: dict[int, list[Any]] = {}
        for c in range(self.graph.n_classes):
            self.model.add(sum(self.chosen[n] for n in self.graph.class_nodes(c)) == self.active[c])
        for r in self.graph.roots:
            self.model.add(self.active[r] == 1)
        for n, reads in enumerate(self.reads):
            for d in reads:
                self.model.add_implication(self.chosen[n], self.active[d])
                readers.setdefault(d, []).append(self.chosen[n])
        for d in exact.tainted(self.graph) - set(self.graph.roots):
            self.model.add_bool_or([self.active[d].negated(), *readers.get(d, [])])

    def _levels(self) -> None:
        """Forbids cycles: within a component a class has a higher level than its readers."""
        component = cyclic_component_of(exact.successors(self.graph))
        size = Counter(component.values())
        level = {c: self.model.new_int_var(0, size[i] - 1, "") for c, i in component.items()}
        for n, reads in enumerate(self.reads):
            p = self.owner[n]
            for d in reads:
                if d == p:
                    self.model.add(self.chosen[n] == 0)
                elif p in level and component[p] == component.get(d):
                    self.model.add(level[d] >= level[p] + 1).only_enforce_if(self.chosen[n])

    def _minimize(self) -> None:
        """Minimises the scaled prices and surcharges; forbids the forbidden pairs."""
        terms = [(x, self.scale.round(float(price))) for x, price in zip(self.chosen, self.graph.cost, strict=True)]
        for (n, m), surcharge in self.graph.pair_costs.items():
            both = self.model.new_bool_var("")
            self.model.add_bool_or([self.chosen[n].negated(), self.chosen[m].negated(), both])
            terms.append((both, self.scale.round(surcharge)))
        for n, m in self.graph.forbidden_pairs:
            self.model.add_bool_or([self.chosen[n].negated(), self.chosen[m].negated()])
        self.model.minimize(sum(weight * literal for literal, weight in terms if weight))

    def hint(self, choice: Choice) -> None:
        """Makes `choice` the warm start."""
        chosen = set(choice.values())
        for n, literal in enumerate(self.chosen):
            self.model.add_hint(literal, n in chosen)

    def choice(self, value: Any) -> dict[int, int]:
        """Returns the choice of a solution; value(literal) tells whether a literal is true."""
        return {self.owner[n]: n for n, literal in enumerate(self.chosen) if value(literal)}
