"""Reduce a ChoiceGraph to a smaller one with the same optimum, and map its choices back.

    reduced = reduce(graph, upper_bound=cost_at_hand)
    choice = reduced.lift(solve(reduced.graph))     # costs reduced.offset + that of the solution

mcm_8 of extraction-gym goes from 16,206 e-nodes to a few hundred.
The rules are in `reductions`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from extraction import reductions
from extraction.check import Choice, reachable
from extraction.closure import Closure
from extraction.graph import ChoiceGraph
from extraction.normal_form import NormalForm
from extraction.stopping import clock, is_over

#: Passes over all reductions, at most.
MAX_PASSES = 40

#: Share of the e-nodes that a pass drops, below which it is the last.
#: Of Swin's 27,904 e-nodes the first pass leaves 15,475, the next two 15,270 and 15,264.
LEAST_SHARE = 0.02


@dataclass(frozen=True)
class Reduced:
    """A reduced graph in normal form (see `normal_form`); its e-node prices may be negative.

    graph : no forbidden e-nodes, pair deltas >= 0
    offset: added to a cost of `graph` it gives the cost of the original
    nodes : e-node of `graph` -> e-node of the original
    fixed : class of the original -> its choice, if it is reached
    """

    original: ChoiceGraph
    graph: ChoiceGraph
    offset: float
    nodes: tuple[int, ...]
    fixed: dict[int, int]

    @property
    def solved(self) -> bool:
        """Whether nothing is left to choose."""
        return self.graph.n_nodes == 1 and self.graph.n_classes == 1

    def lift(self, choice: Choice) -> dict[int, int]:
        """Returns the choice of the original graph that a choice of the reduced one stands for."""
        whole = dict(self.fixed)
        for n in choice.values():
            original = self.nodes[n]
            if original >= 0:
                whole[int(self.original.node_class[original])] = original
        return reachable(self.original, whole)


def reduce(graph: ChoiceGraph, upper_bound: float = math.inf, time_limit: float = math.inf) -> Reduced:
    """Applies all reductions until few e-nodes are dropped, or `time_limit` seconds of computing have passed.

    upper_bound: the cost of a known choice; choices that cost more may be lost.
    Raises Infeasible if no choice exists.
    """
    deadline = clock() + time_limit
    form = NormalForm.of(graph)
    left = graph.n_nodes
    for _ in range(MAX_PASSES):
        reductions.drop_underivable(form)
        reductions.drop_unreachable(form)
        form.settle()
        reductions.fix_required(form)
        reductions.contract(form)
        reductions.raise_prices(form)
        form.settle()
        reductions.drop_underivable(form)
        reductions.drop_unreachable(form)
        if is_over(deadline):
            break
        closure = Closure(form)
        reductions.drop_implied(form, closure)
        form.settle()
        reductions.drop_dominated(form, closure)
        if upper_bound < math.inf:
            reductions.drop_above(form, closure, upper_bound)
        before, left = left, len(form.nodes())
        if left > (1 - LEAST_SHARE) * before:
            break
    reductions.drop_underivable(form)
    reductions.drop_unreachable(form)
    form.settle()
    return export(graph, form)


def export(graph: ChoiceGraph, form: NormalForm) -> Reduced:
    """Returns the remaining form as a ChoiceGraph with dense numbers.

    If nothing remains, the graph has one class of one free e-node, -1 in `nodes`.
    A ChoiceGraph needs a root.
    """
    classes = [c for c, nodes in enumerate(form.members) if nodes]
    if not classes:
        return Reduced(graph, ChoiceGraph.build([[(0.0, [])]], [0]), form.offset, (-1,), form.fixed)
    new_class = {c: i for i, c in enumerate(classes)}
    nodes = [n for c in classes for n in form.members[c]]
    new_node = {n: i for i, n in enumerate(nodes)}
    rows = [[(form.price[n], sorted(new_class[d] for d in form.reads[n])) for n in form.members[c]] for c in classes]
    pairs = {
        (new_node[n], new_node[m]): surcharge
        for n, by_class in form.pairs.items()
        for by_node in by_class.values()
        for m, surcharge in by_node.items()
        if n in new_node and m in new_node
    }
    small = ChoiceGraph.build(rows, sorted(new_class[c] for c in form.required), pairs)
    return Reduced(graph, small, form.offset, tuple(nodes), form.fixed)
