"""`ilp`: extraction as an integer program, solved by HiGHS (highspy).

There is one binary x[n] for each e-node; "class c is active" is the sum of its x.

* Each class has at most one e-node, each root exactly one.
* If a choice in class p reads class d, d is active.
  There is one row for each (p, d), which is stronger than one for each e-node.
* Acyclicity: within each strongly connected component a level for each class, readers below.
* A level of a surcharge (see `structure`): its readers need an e-node without it, or pay it.
* Rows that follow from these for whole numbers but not for fractions.
  An active component has an entry, and the components that the entry reads are active.
  Two classes are not each read from the other.
* Negative prices could reward unneeded activity (see `normal_form`).
  A tainted class may only be active if something active reads it.
  With acyclicity this means that a root reaches it.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import exact
from .check import Choice
from .components import cyclic_component_of
from .graph import ChoiceGraph
from .protocol import Ending, SolverReport
from .structure import components, surcharge_levels

#: Gap of cost and bound that counts as rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Ilp:
    """HiGHS, in one thread."""

    def solve(
        self, graph: ChoiceGraph, report: SolverReport, *, deadline: float, seed: int, warm_start: Choice | None
    ) -> Ending:
        import highspy

        program = LinearProgram(graph)
        highs = program.solver({"mip_rel_gap": 0.0, "mip_abs_gap": _ROUNDING, "random_seed": seed})
        if warm_start is not None:
            start = highspy.HighsSolution()
            start.col_value = program.columns_of(warm_start)
            highs.setSolution(start)

        def improved(event: Any) -> None:
            report.choice(program.choice(event.data_out.mip_solution))

        def progress(event: Any) -> None:
            report.bound(event.data_out.mip_dual_bound)

        highs.cbMipImprovingSolution.subscribe(improved)
        highs.cbMipLogging.subscribe(progress)
        highs.setOptionValue("time_limit", max(0.0, deadline - time.perf_counter()))
        highs.run()
        if highs.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return "infeasible"
        info = highs.getInfo()
        if info.primal_solution_status == 2:
            report.choice(program.choice(highs.getSolution().col_value))
        report.bound(info.mip_dual_bound)
        return "limit"


extract = exact.extractor("ilp", Ilp())


class LinearProgram:
    """Columns and rows for `graph`, which must be in normal form.

    Terms of a row are {column: coefficient}.
    """

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        self.cost = graph.cost.tolist()
        self.upper = [1.0] * graph.n_nodes
        self._bounds: list[tuple[float, float]] = []
        self._start, self._index, self._value = [0], list[int](), list[float]()
        self._classes()
        self._surcharges()
        self._components()
        self._levels()

    def add_row(self, terms: dict[int, float], lower: float, upper: float) -> None:
        """Adds the row lower <= sum of the terms <= upper."""
        self._bounds.append((lower, upper))
        self._index.extend(terms)
        self._value.extend(terms.values())
        self._start.append(len(self._index))

    def _at_most(self, less: dict[int, float], more: dict[int, float]) -> None:
        """Adds the row less <= more."""
        terms = {column: -x for column, x in more.items()}
        for column, x in less.items():
            terms[column] = terms.get(column, 0.0) + x
        self.add_row(terms, -math.inf, 0.0)

    def _column(self, cost: float, upper: float) -> int:
        """Adds a continuous column from 0 to `upper` and returns its number."""
        self.cost.append(cost)
        self.upper.append(upper)
        return len(self.cost) - 1

    def _active(self, c: int) -> dict[int, float]:
        """Returns the terms of "class c is active"."""
        return dict.fromkeys(self.graph.class_nodes(c), 1.0)

    def _classes(self) -> None:
        graph, roots = self.graph, set(self.graph.roots)
        self.reading: dict[tuple[int, int], list[int]] = {}
        readers: dict[int, set[int]] = {}
        owner = graph.node_class.tolist()
        for n in range(graph.n_nodes):
            for d in set(graph.children(n)):
                self.reading.setdefault((owner[n], d), []).append(n)
                readers.setdefault(d, set()).add(n)
        for c in range(graph.n_classes):
            self.add_row(self._active(c), 1.0 if c in roots else 0.0, 1.0)
        for (_, d), nodes in self.reading.items():
            if d not in roots:
                self._at_most(dict.fromkeys(nodes, 1.0), self._active(d))
        for d in exact.tainted(graph) - roots:
            self._at_most(self._active(d), dict.fromkeys(readers.get(d, ()), 1.0))

    def _surcharges(self) -> None:
        for level in surcharge_levels(self.graph):
            allowed = dict.fromkeys(level.free, 1.0)
            if level.high < math.inf:
                allowed[self._column(level.high - level.low, 1.0)] = 1.0
            self._at_most(dict.fromkeys(level.readers, 1.0), allowed)

    def _components(self) -> None:
        active: list[dict[int, float]] = []  # terms of "the component is active"
        for component in components(self.graph):
            if len(component.classes) == 1:
                active.append(self._active(component.classes[0]))
            else:
                active.append({self._column(0.0, 1.0): 1.0})
                self._at_most(active[-1], dict.fromkeys(component.entries, 1.0))
                for c in component.classes:
                    self._at_most(self._active(c), active[-1])
            for other, avoiding in component.avoiding.items():
                self._at_most(active[-1], active[other] | dict.fromkeys(avoiding, 1.0))
        for (p, d), nodes in self.reading.items():
            back = self.reading.get((d, p))
            if back and p != d:
                # if p reads d, the choice of d does not read p
                self._at_most(dict.fromkeys(nodes, 1.0), {n: x for n, x in self._active(d).items() if n not in back})

    def _levels(self) -> None:
        component = cyclic_component_of(exact.successors(self.graph))
        size = Counter(component.values())
        level = {c: self._column(0.0, size[i] - 1.0) for c, i in component.items()}
        for (p, d), nodes in self.reading.items():
            if p in level and component[p] == component.get(d):
                # level[d] >= level[p] + 1 if p's choice reads d, else no constraint
                k = float(size[component[p]])
                if p == d:
                    self.add_row(dict.fromkeys(nodes, 1.0), 0.0, 0.0)
                    continue
                self.add_row({level[p]: 1.0, level[d]: -1.0, **dict.fromkeys(nodes, k)}, -math.inf, k - 1.0)

    def solver(self, options: Mapping[str, Any]) -> Any:
        """Returns a Highs, silent and in one thread, that has the program and these further options."""
        import highspy

        lp: Any = highspy.HighsLp()
        columns = len(self.cost)
        lower, upper = zip(*self._bounds)
        lp.num_col_, lp.num_row_ = columns, len(self._bounds)
        lp.col_cost_ = np.array(self.cost)
        lp.col_lower_, lp.col_upper_ = np.zeros(columns), np.array(self.upper)
        lp.row_lower_, lp.row_upper_ = np.array(lower), np.array(upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self._start, dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self._index, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self._value)
        integer, continuous = highspy.HighsVarType.kInteger, highspy.HighsVarType.kContinuous
        lp.integrality_ = [integer] * self.graph.n_nodes + [continuous] * (columns - self.graph.n_nodes)
        highs = highspy.Highs()  # type: ignore[no-untyped-call]
        for option, value in {"output_flag": False, "threads": 1, **options}.items():
            highs.setOptionValue(option, value)
        highs.passModel(lp)
        return highs

    def choice(self, values: Sequence[float]) -> dict[int, int]:
        """Returns the choice that a solution's columns stand for."""
        chosen = np.flatnonzero(np.asarray(values)[: self.graph.n_nodes] > 0.5)
        return {int(self.graph.node_class[n]): int(n) for n in chosen}

    def columns_of(self, choice: Choice) -> list[float]:
        """Returns the columns of a choice; HiGHS completes those that are not of e-nodes."""
        chosen = set(choice.values())
        return [float(column in chosen) for column in range(len(self.cost))]
