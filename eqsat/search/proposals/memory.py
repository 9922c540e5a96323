"""Extraction within budgets of memory (`eqsat/search/memory_rounds.py`).

It follows if the fastest graph exceeds the limits also in other settings of Vela, and if less SRAM is wanted.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from eqsat.options.decision import Decision, MemoryLimits
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.memory_rounds import NEAR, TO_FIT, TO_SHRINK, Rounds
from eqsat.search.proposal import Ask, Asking
from eqsat.search.proposals.settings import settings
from eqsat.search.state import State

#: Share of the least SRAM so far at which rounds for less SRAM aim, and most such aims.
_STEP, _MOST = 0.9, 8


def memory(state: State) -> Asking:
    share, before = 0.0, MemoryLimits()
    for within in state.decision.wider_aims:
        pays = not 0 < share < before.earning_share or within.objective != CYCLES
        if not pays and within.limits == before.widest and any(before.fits(c.figures) for c in state.extracted):
            continue  # the cheapest choice fits at a lower price of flash than the flash beyond has to earn
        before = within.limits
        state = yield from _in_other_settings(state, within)
        if not state.extracted or _fits_in_settings(state, within):
            continue
        rounds = Rounds(state, within, TO_FIT, share)
        state = yield from rounds.run(state)
        share = rounds.share
        if within.objective != CYCLES:
            state = yield from _shrink(state, replace(within, objective=SRAM))


def _in_other_settings(state: State, within: Decision) -> Generator[Ask, State, State]:
    """Asks for the fastest graph in other settings of Vela if it does not fit."""
    fastest = min(state.extracted, key=lambda c: c.figures, default=None)
    is_wanted = state.with_settings and within.objective == CYCLES
    if fastest is None or not is_wanted or within.limits.fits(fastest.figures):
        return state
    return (yield from settings(state.setting_out(fastest, within)))


def _fits_in_settings(state: State, within: Decision) -> bool:
    """Whether the fastest graph does not fit, but does about as fast in other settings of Vela."""
    if within.objective != CYCLES:
        return False
    fastest = min(state.extracted, key=lambda c: c.figures)
    tuned = [c.figures for c in state.graphs if c.settings and c.tosa == fastest.tosa]
    most = (1 + NEAR) * fastest.figures.cycles
    return not within.limits.fits(fastest.figures) and any(f.cycles <= most and within.limits.fits(f) for f in tuned)


def _shrink(state: State, decision: Decision) -> Generator[Ask, State, State]:
    """Searches for graphs with less SRAM than the best so far, a step at a time."""
    best = None
    for _ in range(_MOST):
        least = min(state.extracted, key=decision.rank_of)
        if least is best:
            break
        best = least
        limits = replace(decision.limits, sram=int(_STEP * best.figures.sram))
        state = yield from Rounds(state, replace(decision, limits=limits), TO_SHRINK).run(state)
    return state
