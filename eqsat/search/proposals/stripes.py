"""Rows in stripes (`eqsat/search/plans.py`), where SRAM is short.

Plans are compiled in the order of their expected figures.
Regions are added one by one, as long as that makes the graph better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from eqsat.choice.compiled import Candidate, Compiled
from eqsat.options.decision import Decision, Figures
from eqsat.options.options import CYCLES, PARETO, SRAM
from eqsat.search.plans import Plan, Plans
from eqsat.search.proposal import Ask, Asking
from eqsat.search.state import State
from eqsat.tensor.stripes import striped

#: Plans in a row that are no better than the best one, after which no more are compiled.
_MISSES = 3


def stripes(state: State) -> Asking:
    """Plans that take too many cycles to beat the best graph of all are left out."""
    start, decision = state.start, state.decision
    if start is None or not _is_short(start, decision):
        return
    answer = min((c for c in state.graphs if not c.settings), key=decision.rank_of).figures
    first: Plans | None = Plans(start, decision.limits.sram)
    while first is not None:
        start, better, misses = first.start, None, 0
        plans = [p for p in first if decision.may_beat(p.expected, answer)]
        plans.sort(key=lambda p: _rank(decision, p.expected, p.excess))
        least = _rank(decision, start.figures, first.excess)
        for k, plan in enumerate(plans):
            if misses == _MISSES or _rank(decision, plan.expected, plan.excess) >= least:
                break
            likely = (_in_stripes(start, p) for p in plans[k + 1 :])  # noqa: B023
            state = yield Ask([_in_stripes(start, plan)], likely)
            (tried,) = state.results
            misses += 1
            if tried is not None:
                found = Plans(tried, decision.limits.sram)
                rank = _rank(decision, tried.figures, found.excess)
                if rank < least and decision.may_beat(tried.figures, answer):
                    better, least, misses = found, rank, 0
        first = better


def wanted(state: State) -> Sequence[Decision]:
    """Returns the decisions by which graphs with stripes have to be better, one after the other.

    For the Pareto set these are less SRAM at no more cycles than stock's graph, and at any cycles.
    """
    decision = state.decision
    if decision.objective != PARETO:
        return decision.aims
    less, given = replace(decision, objective=SRAM, product=None), {c.name: c for c in state.graphs}
    before, anyhow = given.get("stock") or given.get("explicit"), replace(less, vela_total=None)
    at_most = [replace(less, cycles=before.figures.cycles)] if before else []
    return [aim for one in (*at_most, anyhow) for aim in one.aims]


def _is_short(start: Compiled, decision: Decision) -> bool:
    """Whether less SRAM would make a graph better."""
    limit = decision.limits.sram
    return decision.objective != CYCLES or limit is not None and start.figures.sram > limit


def _rank(decision: Decision, figures: Figures, excess: float) -> tuple[float, ...]:
    """Returns the key by which graphs are sorted: as answers, but of equal peaks the one with less excess first."""
    beyond, is_dearer, *others = decision.rank(figures)
    return beyond, excess, is_dearer, *others


def _in_stripes(start: Compiled, plan: Plan) -> Candidate:
    """Returns the graph of a plan."""
    graph, source = striped(start.graph, plan.region, plan.parts)
    return replace(start.rewritten(graph, "stripes", source), predicted=float(plan.expected.cycles))
