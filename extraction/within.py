"""The cheapest choice within budgets, by an integer program (`ilp`).

    within(graph, [Budget(bytes_of, 4096)])     # None: none was found

A budget limits the sum of weights over the chosen e-nodes.
Reductions that compare only costs do not hold with budgets.
So only e-nodes that can never be chosen are dropped before.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from . import reductions
from .check import check
from .graph import ChoiceGraph
from .ilp import LinearProgram
from .lagrange import Budget
from .normal_form import NormalForm
from .reduce import export
from .result import Extraction
from .stopping import clock, is_over

#: Relative gap of cost and bound at which the search ends.
GAP = 0.003
#: Nodes of branch and bound after which the search ends: the same on every machine.
NODES = 20


def within(
    graph: ChoiceGraph,
    budgets: Sequence[Budget],
    *,
    among: Collection[int] | None = None,
    time_limit: float = 10.0,
    gap: float = GAP,
) -> Extraction | None:
    """Returns the cheapest choice that was found; None if none was found or none exists.

    among: the e-nodes that may be chosen; None: all.
    time_limit: seconds of computing; it is only for cases in which `gap` and NODES do not end the search.
    gap: relative gap of cost and bound at which the search ends.
    Raises Infeasible if no choice exists even without budgets.
    Raises ImportError if highspy is not installed.
    """
    begin = time.perf_counter()
    deadline = clock() + time_limit
    if among is not None:
        graph = replace(graph, forbidden=graph.forbidden | set(range(graph.n_nodes)).difference(among))
    form = NormalForm.of(graph)
    reductions.drop_underivable(form)
    reductions.drop_unreachable(form)
    form.settle()
    reduced = export(graph, form)
    program = LinearProgram(reduced.graph)
    for b in budgets:
        weights = {i: float(b.weights[n]) for i, n in enumerate(reduced.nodes) if n >= 0 and b.weights[n]}
        program.add_row(weights, -math.inf, b.most)
    highs = program.solver({"mip_rel_gap": gap, "mip_max_nodes": NODES})

    def interrupt(event: Any) -> None:
        if is_over(deadline):
            event.interrupt()

    highs.cbMipInterrupt.subscribe(interrupt)
    highs.run()
    info = highs.getInfo()
    if info.primal_solution_status != 2:
        return None
    choice = reduced.lift(program.choice(highs.getSolution().col_value))
    cost, bound = check(graph, choice), info.mip_dual_bound + reduced.offset
    seconds = time.perf_counter() - begin
    return Extraction(choice, cost, min(bound, float(cost)), "feasible", [(seconds, cost)], seconds, "within")
