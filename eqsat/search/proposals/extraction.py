"""Extraction: greedy, also from choice graphs in which views are free or copies, and then by the options' extractor.

Each extraction starts anew with the prices that Vela's table of the last choice corrected.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.options.plugins import check_extraction
from eqsat.search.proposal import Ask, Asking, State
from extraction import Extraction, Infeasible, extract

#: Name of the greedy extractor.
_GREEDY = "dag_greedy"
#: Share of the best cycles by which a choice may be slower for another exact round to follow.
_BEHIND = 0.02


def greedy(state: State) -> Asking:
    """Raises Infeasible if nothing can be extracted."""
    choices = state.priced
    try:
        for copied in (False, True, None) if choices.last else (None,):
            choice = None
            for _ in range(state.options.rounds):
                choice = _extract(_GREEDY, state, choice).choice if copied is None else _with_views(state, copied)
                state = yield Ask([state.chosen(choice, _GREEDY)])
                if not state.prices_rose:
                    break
    except Infeasible as e:
        refused = choices.unpriced()
        raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e


def exact(state: State) -> Asking:
    """The first round starts from the best greedy choice, each other one from the round before.

    It ends once corrected prices cannot change the next choice, or a graph is slower than the best by `_BEHIND`.
    """
    extractor = state.options.extractor
    if extractor == _GREEDY or not state.extracted:
        return
    choice = min((c.choice for c in state.extracted), key=state.cost)
    for _ in range(state.options.rounds):
        found = _extract(extractor, state, choice)
        choice, best = found.choice, min(c.figures.cycles for c in state.extracted)
        state = yield Ask([state.chosen(choice, extractor, found.gap)])
        (new,) = state.results
        if not state.prices_rose or new is None or new.figures.cycles > (1 + _BEHIND) * best:
            return


def _with_views(state: State, copied: bool) -> dict[int, int]:
    """Returns the choice with all views free or, if `copied`, with each view a copy."""
    found = extract(state.priced.with_views(copied), _GREEDY, time_limit=state.options.time_limit)
    return state.priced.with_storage(found.choice)


def _extract(extractor: str, state: State, start: Mapping[int, int] | None) -> Extraction:
    """Returns an extraction at the present prices.

    start: the choice to begin from.
    Raises PluginError if the extractor gives no valid choice, and KeyboardInterrupt if that ended it.
    """
    graph = state.priced.graph
    found = extract(graph, extractor, time_limit=state.options.time_limit, warm_start=start)
    return check_extraction(found, graph, extractor).unless_interrupted()
