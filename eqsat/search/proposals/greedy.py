"""Greedy extraction, also from choice graphs in which views are free or copies.

Each extraction starts anew with the prices that Vela's table of the last choice corrected.
"""

from __future__ import annotations

from collections.abc import Mapping

from eqsat.options.options import check_extraction
from eqsat.search.proposal import Ask, Asking, State
from extraction import Extraction, Infeasible, extract

#: Name of the greedy extractor.
GREEDY = "dag_greedy"


def greedy(state: State) -> Asking:
    """Asks for greedy choices. Raises Infeasible if nothing can be extracted."""
    choices = state.priced
    try:
        for copied in (False, True, None) if choices.last else (None,):
            choice = None
            for _ in range(state.options.rounds):
                choice = extract_by(GREEDY, state, choice).choice if copied is None else _with_views(state, copied)
                state = yield Ask([state.make_candidate(choice, GREEDY)])
                if not state.prices_rose:
                    break
    except Infeasible as e:
        refused = choices.list_refused()
        raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e


def _with_views(state: State, copied: bool) -> dict[int, int]:
    """Returns the choice with all views free or, if `copied`, with each view a copy."""
    found = extract(state.priced.with_views(copied), GREEDY, time_limit=state.options.time_limit)
    return state.priced.with_storage(found.choice)


def extract_by(extractor: str, state: State, start: Mapping[int, int] | None) -> Extraction:
    """Returns an extraction at the present prices.

    start: the choice to begin from.
    Raises PluginError if the extractor gives no valid choice, and KeyboardInterrupt if that ended it.
    """
    graph = state.priced.graph
    found = extract(graph, extractor, time_limit=state.options.time_limit, warm_start=start)
    return check_extraction(found, graph, extractor).unless_interrupted()
