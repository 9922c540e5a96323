"""Answers of earlier searches (`eqsat/search/recall.py`), compiled with the present Vela."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from eqsat.choice.compiled import Candidate
from eqsat.choice.respelling import respell
from eqsat.search.answer_store import KnownAnswer
from eqsat.search.proposal import Ask, Asking, Proposal
from eqsat.search.proposals.settings import may_choose
from eqsat.search.state import State
from eqsat.tosa.flatbuffer import TosaError, dumps, loads, tensor_names


def same_graph(answers: Sequence[KnownAnswer]) -> Proposal:
    """Returns a proposal of the answers for the very same graph."""

    def remembered(state: State) -> Asking:
        found = []
        for a in (a for a in answers if a.tosa and _may_choose(a.settings, state)):
            with suppress(TosaError):
                graph, own = loads(a.tosa, "the answer of another search"), tensor_names(a.tosa)
                found.append(Candidate("eqsat", graph, a.tosa, given=a.given, settings=a.settings, tensors=own))
        yield Ask(found)

    return remembered


def same_structure(known: KnownAnswer) -> Proposal:
    """Returns a proposal of the choice for a graph that differs in constants alone, with the constants of this one.

    It is compiled without further settings, and with the settings of Vela that it had.
    There is none if the e-graphs differ in what is chosen.
    """

    def remembered(state: State) -> Asking:
        graph = respell(known.choice, state.frozen, state.target.family) if known.choice and state.frozen else None
        if graph is not None:
            tosa = dumps(graph)
            every = [s for s in dict.fromkeys(((), known.settings)) if _may_choose(s, state)]
            yield Ask([Candidate("eqsat", graph, tosa, settings=s) for s in every])

    return remembered


def _may_choose(settings: Sequence[str], state: State) -> bool:
    return all(may_choose(s, state.target) for s in settings)
