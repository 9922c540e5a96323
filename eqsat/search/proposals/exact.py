"""The extractor of the options, from the best greedy choice."""

from __future__ import annotations

from eqsat.search.proposal import Ask, Asking, State
from eqsat.search.proposals.greedy import GREEDY, extract_by

#: Share of the best cycles by which a choice may be slower for another round to follow.
_BEHIND = 0.02


def exact(state: State) -> Asking:
    """Asks for a choice per round, each found from the one before.

    It ends once corrected prices cannot change the next choice, or a graph is slower than the best by `_BEHIND`.
    """
    extractor = state.options.extractor
    if extractor == GREEDY or not state.extracted:
        return
    choice = min((c.choice for c in state.extracted), key=state.cost)
    for _ in range(state.options.rounds):
        found = extract_by(extractor, state, choice)
        choice, best = found.choice, min(c.figures.cycles for c in state.extracted)
        state = yield Ask([state.make_candidate(choice, extractor, found.gap)])
        (new,) = state.results
        if not state.prices_rose or new is None or new.figures.cycles > (1 + _BEHIND) * best:
            return
