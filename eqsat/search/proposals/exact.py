"""The extractor of the options, from the best greedy choice."""

from __future__ import annotations

import math

from eqsat.search.comparison import PROVED
from eqsat.search.proposal import Ask, Asking
from eqsat.search.proposals.greedy import GREEDY, extracted_by
from eqsat.search.state import State
from extraction import Extraction

#: Share of the best cycles by which an unproved choice may be slower for another round to follow.
_NEAR = 0.015
#: This share for a proved choice; beyond it, one more table cannot correct the prices enough.
_FAR = 0.05
#: Gap above which another round only follows a choice that is faster than all before.
#: Of 8 cells of the zoo with such gaps, a round after another choice found the fastest in none (df95786).
#: The last round has no more time than the others then: MobileViT's gap on U85 is 91% after 5 s and after 11 s.
_VAGUE = 0.05
#: Share of the time limit for an extraction that another one may follow, or that follows one with such a gap.
_BEFORE = 0.5


def exact(state: State) -> Asking:
    """Each round starts from the one before.

    It ends once corrected prices cannot change the next choice, or a graph is slower than the best by `share_behind`.
    """
    options, extractor = state.options, state.options.extractor
    if extractor == GREEDY or not state.extracted:
        return
    found: Extraction | None = None
    for number in range(options.rounds):
        share = time_share(number == options.rounds - 1, found.gap if found else math.inf)
        found = extracted_by(extractor, state, found or state.cheapest(), share * options.time_limit)
        best = min((c.figures.cycles for c in state.extracted), default=math.inf)
        state = yield Ask([state.chosen(found, extractor)])
        (new,) = state.results
        if not state.prices_rose or new is None or new.figures.cycles >= (1 + share_behind(found.gap)) * best:
            return


def share_behind(gap: float) -> float:
    """Returns the share of the best cycles by which a choice has to be slower for no other round to follow.

    gap: of the choice.
    """
    return 0.0 if gap > _VAGUE else _NEAR if gap > PROVED else _FAR


def time_share(is_last: bool, gap: float) -> float:
    """Returns the share of the time limit for an extraction.

    is_last: whether no other one may follow.
    gap: of the extraction before; inf if there is none, or if its extractor tells none.
    """
    return _BEFORE if not is_last or _VAGUE < gap < math.inf else 1.0
