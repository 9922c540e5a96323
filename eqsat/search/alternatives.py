"""Alternatives to a graph: what extraction finds in its e-graph, each compiled whole by Vela.

    search = Search(target, pool, options)
    explored = by_cycles(search, frozen)
    graphs = improved(search, explored, decision).graphs

Greedy extraction starts, also from choice graphs in which views are free or copies, and the extractor of the options
goes on from the best that it found. Each of them runs for several rounds: Vela's table of one round's graph corrects
the prices of the next.
Where the fastest graph needs more memory than it may, there are further rounds (`memory_rounds.py`). Then convolutions
take the place of Vela's copies (`copy_rounds.py`), and at last the best graphs run in other orders (`order_rounds.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial

from cost_models.cache import PriceCache
from eqsat.choice.choice import Choices, build
from eqsat.choice.unpriced import unpriced
from eqsat.egraph.encoding import Frozen
from eqsat.egraph.rule import Rule
from eqsat.options.decision import Decision
from eqsat.options.plugins import checked_extraction, made_cost_model
from eqsat.search.copy_rounds import CopyRounds
from eqsat.search.explored import Explored, Rounds
from eqsat.search.memory_rounds import MemoryRounds
from eqsat.search.order_rounds import in_orders
from eqsat.search.search import Search
from extraction import Extraction, Infeasible, check, extract

_GREEDY = "dag_greedy"
#: An extraction whose gap is below this has as good as proved its choice. A graph is near another one that takes less
#: cycles by at most this part, and far from it where it takes more than the second part more: there prices are too far
#: from what Vela says for one more table to mend them.
_PROVED, _NEAR, _FAR = 0.001, 0.015, 0.05
#: The part of its time that an extraction has where another one may follow.
_BEFORE = 0.5


def by_cycles(
    search: Search, frozen: Frozen, *, extractor: str = "", more: Sequence[Rule] = (), tolerant: bool = False
) -> Explored:
    """Distinct graphs of an e-graph that Vela takes, looked for by cycles alone; where the search is interrupted, those
    that were found until then.

    extractor: "" is that of the options; more, tolerant: as `Explored` has them.
    Raises Infeasible if nothing can be extracted, WorkerError if nothing can be priced, SearchInterrupted where nothing
    was found yet.
    """
    prices = PriceCache(search.options.cache)
    try:
        model = made_cost_model(search.options.cost_model, search.target, search.pool, prices)
        with search.pricing():
            choices = build(frozen, model).without_copies()
    finally:
        prices.close()
        _tell_of(prices, search)
    return _by_cycles(search, Explored(choices, more, tolerant), extractor or search.options.extractor)


def improved(search: Search, explored: Explored, decision: Decision) -> Explored:
    """What rounds by memory, with copies and in other orders find besides, within each of the limits that a decision
    aims at."""
    for rounds in (MemoryRounds, CopyRounds):
        for limits in decision.wider_aims:
            explored = rounds(search, explored, replace(decision, limits=limits)).run()
    by_tosa = dict(explored.by_tosa)
    in_orders(search, by_tosa, decision)
    return replace(explored, by_tosa=by_tosa)


def without(search: Search, explored: Explored, forbidden: Collection[int], decision: Decision) -> Explored:
    """What greedy extraction finds in an e-graph, at the prices known by now, without some choice nodes. Raises
    Infeasible."""
    graph = explored.choices.graph
    allowed = replace(graph, forbidden=graph.forbidden | frozenset(forbidden))
    choices = replace(explored.choices, graph=allowed).without_copies()
    found = _by_cycles(search, replace(explored, choices=choices, by_tosa={}), _GREEDY)
    return improved(search, found, decision)


def _tell_of(prices: PriceCache, search: Search) -> None:
    """Warns, once, where the store cannot be used."""
    search.warnings.extend(w for w in prices.store.warnings if w not in search.warnings)


def _by_cycles(search: Search, explored: Explored, extractor: str) -> Explored:
    try:
        return _CycleRounds(search, explored, extractor).run()
    except Infeasible as e:
        refused = unpriced(explored.choices)
        raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e


class _CycleRounds(Rounds):
    def __init__(self, search: Search, explored: Explored, extractor: str) -> None:
        super().__init__(search, explored)
        self.extractor = extractor

    def _run(self) -> None:
        starts = []
        if self.choices.last:
            starts = [
                self._rounds(_GREEDY, lambda _, limit, copied=copied: self._relaxed(self.choices, copied, limit))  # type: ignore[misc]
                for copied in (False, True)
            ]
        starts.append(self._rounds(_GREEDY, partial(self._again, _GREEDY)))
        if self.extractor != _GREEDY:
            best = min(starts, key=lambda found: check(self.choices.graph, found.choice))
            self._rounds(self.extractor, lambda found, limit: self._again(self.extractor, found or best, limit))

    def _relaxed(self, choices: Choices, copied: bool, limit: float) -> Extraction:
        return choices.settled(extract(choices.relaxed(copied), _GREEDY, time_limit=limit).choice)

    def _again(self, extractor: str, found: Extraction | None, limit: float) -> Extraction:
        again = extract(self.choices.graph, extractor, time_limit=limit, warm_start=found)
        return checked_extraction(again, self.choices.graph, extractor).unless_interrupted()

    def _rounds(self, extractor: str, extracted: Callable[[Extraction | None, float], Extraction]) -> Extraction:
        """The last of an extractor's rounds, which go on as long as a new graph's table corrects prices; each starts
        from the one before. None follows one that ran out of time and has nothing to show for it, for what it lacks is
        not better prices, nor one that is far from the best graph."""
        found = None
        options = self.search.options
        for number in range(options.rounds):
            share = 1.0 if number == options.rounds - 1 else _BEFORE
            with self.search.extracting():
                found = extracted(found, share * options.time_limit)
            best = min((c.figures.cycles for c in self.graphs), default=math.inf)
            new, differs = self._add(found, extractor, number)
            most = 1 + (_NEAR if found.gap > _PROVED else _FAR)
            in_vain = new is not None and new.figures.cycles > most * best
            if not differs or (in_vain and extractor != _GREEDY):
                break
        assert found is not None, "there is at least one round"
        return found
