"""Extraction within limits of memory.

It follows if the fastest graph exceeds the limits, and if less SRAM is wanted.
The graphs compiled so far tell how many bytes a choice takes (`eqsat/search/memory_use.py`).
In each round Lagrange steps (`extraction/lagrange.py`) look for the cheapest choice within budgets of these bytes.
Greedy extraction has them in its prices, which rise until a graph fits, and then fall, by smaller and smaller factors.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Mapping, Sequence
from dataclasses import replace

from eqsat.choice.choice import Choices
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.memory_use import MemoryUse
from eqsat.search.proposal import Ask, Asking
from eqsat.search.state import State
from extraction import ChoiceGraph, check, dag_greedy
from extraction.lagrange import steps

#: Names in records: of Lagrange steps, and of extraction with prices on memory.
_LAGRANGE, _PRICED = "lagrange", "dag_greedy with memory"
#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
_NEAR = 0.01
#: Rounds in a row that come no nearer to the limits, nor are faster within them, after which there are no more.
_FRUITLESS = 3
#: Price of all excess memory at first, as a share of the graph's cycles.
_FIRST = 0.5
#: Factor by which that price rises and falls at first; its root after each turn.
_FACTOR = 6.0
#: Compiled choices from which greedy extraction starts, too.
_STARTS = 2
#: Share of the least SRAM so far at which a search for less SRAM aims.
_STEP = 0.9


def memory(state: State) -> Asking:
    for within in state.decision.wider_aims if state.extracted else ():
        state = yield from _within(state, within)
        if within.objective != CYCLES:
            state = yield from _shrink(state, replace(within, objective=SRAM))


def _shrink(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for graphs with less SRAM than the best so far, a step at a time."""
    best = None
    while (least := min(state.extracted, key=decision.rank_of)) is not best:
        best = least
        limits = replace(decision.limits, sram=int(_STEP * best.figures.sram))
        state = yield from _within(state, replace(decision, limits=limits))
    return state


def _within(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Asks for choices within the limits of a decision, some a round."""
    limits, use = decision.limits, MemoryUse(state.priced, decision.limits)
    share, factor, fitted, fruitless = 0.0, _FACTOR, False, 0
    while fruitless < _FRUITLESS and not _is_done(state, decision):
        use.learn(state.priced, state.extracted)
        before, over = _reached(state, limits), _over(state, limits)
        share = share or _FIRST / limits.excess(over)
        priced = use.priced(state.priced, over, share)
        found = {_LAGRANGE: _by_steps(state, limits, use), _PRICED: _greedy(state, priced)}
        state = yield Ask([state.chosen(state.extraction(c, by), by) for by, some in found.items() for c in some])
        fits = any(limits.fits(c.figures) for c in state.results if c)
        if fits != fitted:
            factor, fitted = math.sqrt(factor), fits
        share = share / factor if fits else share * factor
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


def _over(state: State, limits: MemoryLimits) -> Figures:
    """Returns the figures of a graph from which one that fits is searched: fast, with little excess."""
    over = (c.figures for c in state.extracted if not limits.fits(c.figures))
    return min(over, key=lambda f: f.cycles * (1 + limits.excess(f)))


def _by_steps(state: State, limits: MemoryLimits, use: MemoryUse) -> Sequence[Mapping[int, int]]:
    """Returns the cheapest new choice within the budgets that Lagrange steps meet, if any."""
    graphs = state.extracted
    near = min(graphs, key=lambda c: (limits.excess(c.figures), c.figures.cycles))
    budgets, known = use.budgets(state.priced, near), [c.choice for c in graphs]
    starts = dict.fromkeys((min(graphs, key=lambda c: state.cost(c.choice)), near))
    limit, seed = state.options.time_limit, len(known)
    met = steps(state.priced.graph, budgets, [c.choice for c in starts], time_limit=limit, seed=seed)
    within = (choice for choice in met if choice not in known and not any(b.excess(choice) for b in budgets))
    return sorted(within, key=state.cost)[:1]


def _greedy(state: State, priced: Choices) -> Sequence[Mapping[int, int]]:
    """Returns a greedy choice from compiled ones, and the better with views free or as copies, at prices of memory."""

    def cost(choice: Mapping[int, int]) -> float:
        return check(priced.graph, choice)

    def extracted(graph: ChoiceGraph, starts: Sequence[Mapping[int, int]] = ()) -> Mapping[int, int]:
        return dag_greedy.extract(graph, time_limit=state.options.time_limit, restarts=1, starts=starts).choice

    known = sorted((c.choice for c in state.extracted), key=cost)
    bounds = (priced.with_storage(extracted(priced.with_views(copied))) for copied in (False, True) if priced.last)
    return [extracted(priced.graph, known[:_STARTS]), *sorted(bounds, key=cost)[:1]]
