"""Extraction within limits of memory.

It follows if the fastest graph exceeds the limits also in other settings of Vela, and if less SRAM is wanted.
The graphs compiled so far tell how many bytes a choice takes (`eqsat/search/memory_use.py`).
In each round Lagrange steps (`extraction/lagrange.py`) look for the cheapest choice within budgets of these bytes.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping
from dataclasses import replace

from eqsat.options.decision import Decision, MemoryLimits
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.memory_use import MemoryUse
from eqsat.search.proposal import Ask, Asking
from eqsat.search.proposals.settings import settings
from eqsat.search.state import State
from extraction.lagrange import steps

#: Name in records.
_LAGRANGE = "lagrange"
#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
_NEAR = 0.01
#: Rounds in a row that come no nearer to the limits, nor are faster within them, after which there are no more.
_FRUITLESS = 3
#: Share of the least SRAM so far at which a search for less SRAM aims.
_STEP = 0.9


def memory(state: State) -> Asking:
    for within in state.decision.wider_aims if state.extracted else ():
        state, fits = yield from _in_other_settings(state, within)
        if not fits:
            state = yield from _within(state, within)
            if within.objective != CYCLES:
                state = yield from _shrink(state, replace(within, objective=SRAM))


def _in_other_settings(state: State, within: Decision) -> Generator[Ask, State, tuple[State, bool]]:
    """Asks for the fastest graph in other settings of Vela if it does not fit.

    Also returns whether it then fits and is about as fast.
    """
    fastest = min(state.extracted, key=lambda c: c.figures)
    if not state.with_settings or within.objective != CYCLES or within.limits.fits(fastest.figures):
        return state, False
    state = yield from settings(state.setting_out(fastest, within))
    tuned = [c.figures for c in state.graphs if c.settings and c.tosa == fastest.tosa]
    most = (1 + _NEAR) * fastest.figures.cycles
    return state, any(f.cycles <= most and within.limits.fits(f) for f in tuned)


def _shrink(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for graphs with less SRAM than the best so far, a step at a time."""
    best = None
    while (least := min(state.extracted, key=decision.rank_of)) is not best:
        best = least
        limits = replace(decision.limits, sram=int(_STEP * best.figures.sram))
        state = yield from _within(state, replace(decision, limits=limits))
    return state


def _within(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for choices within the limits of a decision, one a round."""
    limits, use, fruitless = decision.limits, MemoryUse(state.priced, decision.limits), 0
    while fruitless < _FRUITLESS and not _is_done(state, decision):
        use.learn(state.priced, state.extracted)
        found, before = _next(state, limits, use), _reached(state, limits)
        if found is None:
            break
        state = yield Ask([state.chosen(state.extraction(found, _LAGRANGE), _LAGRANGE)])
        fruitless = fruitless + 1 if _reached(state, limits) >= before else 0
    return state


def _is_done(state: State, decision: Decision) -> bool:
    """Whether a graph is within the limits with few cycles, or for less SRAM with no more than stock's; or all are."""
    graphs = state.extracted
    if all(decision.limits.fits(c.figures) for c in graphs):
        return True
    if decision.objective == SRAM:
        return any(decision.rank_of(c)[0] == 0 for c in graphs)
    return _reached(state, decision.limits)[0] <= (1 + _NEAR) * min(c.figures.cycles for c in graphs)


def _reached(state: State, limits: MemoryLimits) -> tuple[float, float]:
    """Returns the cycles of the fastest graph that fits, then the least excess of all; less is better."""
    figures = [c.figures for c in state.extracted]
    return min((f.cycles for f in figures if limits.fits(f)), default=math.inf), min(map(limits.excess, figures))


def _next(state: State, limits: MemoryLimits, use: MemoryUse) -> Mapping[int, int] | None:
    """Returns the cheapest new choice within the budgets that Lagrange steps meet, None if they meet none."""
    graphs = state.extracted
    near = min(graphs, key=lambda c: (limits.excess(c.figures), c.figures.cycles))
    budgets, known = use.budgets(state.priced, near), [c.choice for c in graphs]
    starts = dict.fromkeys((min(graphs, key=lambda c: state.cost(c.choice)), near))
    limit, seed = state.options.time_limit, len(known)
    met = steps(state.priced.graph, budgets, [c.choice for c in starts], time_limit=limit, seed=seed)
    within = (choice for choice in met if choice not in known and not any(b.excess(choice) for b in budgets))
    return min(within, key=state.cost, default=None)
