"""Alternatives to a graph, extracted from its e-graph and each compiled as a whole by Vela.

    search = Search(target, pool, options)
    explored = by_cycles(search, frozen)
    graphs = improved(search, explored, decision).graphs

Greedy extraction comes first, also from choice graphs in which views are free or copies.
The extractor of the options starts from its best choice.
Each extractor runs for several rounds, and Vela's table of one round corrects the prices of the next.
If the fastest graph exceeds its memory, further rounds follow (`memory_rounds.py`).
Then convolutions replace Vela's copies (`copy_rounds.py`).
At last the best graphs run in other orders (`order_rounds.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial

from cost_models.cache import PriceCache
from eqsat.choice.choice import build
from eqsat.egraph.encoding import Frozen
from eqsat.options.decision import Decision
from eqsat.options.plugins import checked_extraction, made_cost_model
from eqsat.search.comparison import PROVED
from eqsat.search.copy_rounds import CopyRounds
from eqsat.search.explored import Explored, Rounds
from eqsat.search.memory_rounds import MemoryRounds
from eqsat.search.order_rounds import in_orders
from eqsat.search.search import Search
from extraction import Extraction, Infeasible, check, extract

#: Name of the greedy extractor.
_GREEDY = "dag_greedy"
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


def by_cycles(search: Search, frozen: Frozen) -> Explored:
    """Returns the distinct graphs of an e-graph that Vela accepts, searched by cycles alone.

    If the search is interrupted, it returns those found so far.
    Raises Infeasible if nothing can be extracted.
    Raises WorkerError if nothing can be priced.
    Raises SearchInterrupted if nothing was found yet.
    """
    prices = PriceCache(search.options.cache)
    try:
        model = made_cost_model(search.options.cost_model, search.target, search.pool, prices)
        with search.pricing():
            choices = build(frozen, model).without_copies()
    finally:
        prices.close()
        search.warnings.extend(w for w in prices.store.warnings if w not in search.warnings)
    return _by_cycles(search, Explored(choices), search.options.extractor)


def improved(search: Search, explored: Explored, decision: Decision) -> Explored:
    """Adds graphs by memory, with copies and in other orders, within each limit the decision aims at."""
    explored = MemoryRounds(search, explored, decision).run()
    for aim in decision.wider_aims:
        explored = CopyRounds(search, explored, aim).run()
    in_orders(search, explored.by_tosa, decision)
    return explored


def without(search: Search, explored: Explored, forbidden: Collection[int], decision: Decision) -> Explored:
    """Returns the graphs of greedy extraction without some choice nodes, at the present prices.

    Raises Infeasible.
    """
    graph = explored.choices.graph
    allowed = replace(graph, forbidden=graph.forbidden | frozenset(forbidden))
    choices = replace(explored.choices, graph=allowed).without_copies()
    found = _by_cycles(search, replace(explored, choices=choices, by_tosa={}), _GREEDY)
    return improved(search, found, decision)


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


def _by_cycles(search: Search, explored: Explored, extractor: str) -> Explored:
    try:
        return _CycleRounds(search, explored, extractor).run()
    except Infeasible as e:
        refused = explored.choices.unpriced()
        raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e


class _CycleRounds(Rounds):
    def __init__(self, search: Search, explored: Explored, extractor: str) -> None:
        super().__init__(search, explored)
        self.extractor = extractor

    called = "rounds by cycles"

    def _run(self) -> str:
        starts = []
        if self.choices.last:
            starts = [self._rounds(_GREEDY, partial(self._relaxed, copied)) for copied in (False, True)]
        starts.append(self._rounds(_GREEDY, partial(self._again, _GREEDY)))
        if self.extractor != _GREEDY:
            best = min(starts, key=lambda found: check(self.choices.graph, found.choice))
            self._rounds(self.extractor, lambda found, limit: self._again(self.extractor, found or best, limit))
        return ""

    def _relaxed(self, copied: bool, _: Extraction | None, limit: float) -> Extraction:
        choices = self.choices
        return choices.settled(extract(choices.relaxed(copied), _GREEDY, time_limit=limit).choice)

    def _again(self, extractor: str, found: Extraction | None, limit: float) -> Extraction:
        again = extract(self.choices.graph, extractor, time_limit=limit, warm_start=found)
        return checked_extraction(again, self.choices.graph, extractor).unless_interrupted()

    def _rounds(self, extractor: str, extracted: Callable[[Extraction | None, float], Extraction]) -> Extraction:
        """Returns the last extraction of an extractor's rounds, each of which starts from the one before.

        There are `Options.rounds` at most.
        They end once corrected prices cannot change the next extraction.
        Rounds of other extractors than the greedy one also end if a graph is slower than the best before by
        `share_behind`.
        """
        found = None
        options, known = self.search.options, len(self.graphs)
        reason = f"all {options.rounds} rounds were made"
        for number in range(options.rounds):
            share = time_share(number == options.rounds - 1, found.gap if found else math.inf)
            with self.search.extracting():
                found = extracted(found, share * options.time_limit)
            best = min((c.figures.cycles for c in self.graphs), default=math.inf)
            new, differs = self._add(found, extractor, number)
            slower = share_behind(found.gap)
            in_vain = new is not None and new.figures.cycles >= (1 + slower) * best
            if not differs:
                reason = "no price was corrected that may change the choice" if new else "Vela refuses the graph"
                break
            if in_vain and extractor != _GREEDY:
                behind = f"takes at least {slower:.1%} more cycles than" if slower else "is no faster than"
                reason = f"the graph {behind} the best before"
                break
        assert found is not None, "there is at least one round"
        self._tell(f"{self.called}, {extractor},", reason, known)
        return found
