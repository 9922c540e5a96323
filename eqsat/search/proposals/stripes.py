"""Rows in stripes (`eqsat/search/plans.py`), where SRAM is short.

Plans are compiled in the order of their expected figures.
Regions are added one by one, as long as that makes the graph better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

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
        plans, learnt, least = list(first), _Learnt(start.figures), _rank(decision, start.figures, first.excess)
        while plans and misses < _MISSES:
            able = [p for p in plans if decision.may_beat(learnt.of(p.expected), answer)]
            ranked = sorted(able, key=lambda p: _rank(decision, learnt.of(p.expected), p.excess))  # noqa: B023
            if not ranked or _rank(decision, learnt.of((plan := ranked[0]).expected), plan.excess) >= least:
                break
            plans.remove(plan)
            misses += 1
            candidates = (_in_stripes(start, p) for p in ranked)
            state = yield Ask([next(candidates)], likely=candidates)
            (tried,) = state.results
            if tried is not None:
                learnt.learn(plan.expected, tried.figures)
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
    less, given = replace(decision, objective=SRAM), {c.name: c for c in state.graphs}
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


@dataclass(slots=True)
class _Learnt:
    """The ratios of Vela's figures of the last plan for a graph to the expected ones.

    start: figures of the graph.
    cycles, flash: ratios of what is added.
    sram: ratio of the bytes of SRAM.
    """

    start: Figures
    cycles: float = 1.0
    flash: float = 1.0
    sram: float = 1.0

    def of(self, expected: Figures) -> Figures:
        """Returns expected figures, corrected by the ratios."""
        more = int((self.cycles - 1) * (expected.cycles - self.start.cycles))
        flash = int((self.flash - 1) * (expected.flash - self.start.flash))
        return Figures(
            expected.cycles + more, int(self.sram * expected.sram), expected.flash + flash, expected.vela_total + more
        )

    def learn(self, expected: Figures, figures: Figures) -> None:
        self.cycles = max(0, figures.cycles - self.start.cycles) / max(1, expected.cycles - self.start.cycles)
        self.flash = max(0, figures.flash - self.start.flash) / max(1, expected.flash - self.start.flash)
        self.sram = figures.sram / max(1, expected.sram)
