"""Rounds of extraction within budgets of memory (`memory.py`).

They run if the fastest graph exceeds the limits also in other settings of Vela, and if less SRAM is wanted.
A round extracts a choice within the budgets, compiles it, and learns from Vela's table and allocation.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.ground.forked import beside
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.options.effort import EFFORTS
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.explored import Explored, RoundsWithin
from eqsat.search.memory import MemoryPrices, MemoryUse
from eqsat.search.search import Search
from eqsat.search.setting_rounds import in_best_settings
from extraction import Extraction, check, dag_greedy
from extraction.lagrange import steps

logger = logging.getLogger(__name__)

#: Names in logs and records: of Lagrange steps, and of extraction with prices on memory.
_STEPS, _PRICED = "lagrange", "dag_greedy with memory"
#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
_NEAR = 0.01
#: Rounds in a row with prices on memory that find nothing better, after which rounds end.
_FRUITLESS = 3
#: Rounds in a row with prices on memory that come no nearer to the limits, after which rounds end if nothing fits.
_HOPELESS = 4
#: Price of all excess memory at first, as a share of the graph's cycles.
_FIRST = 0.5
#: Factor by which that price rises and falls at first; its root after each turn.
_FACTOR = 6.0
#: The same two for less SRAM.
_FIRST_DESCENT, _FACTOR_DESCENT = 1.0, 25.0
#: Factor below which these prices are not tried any more.
_CLOSE = 1.3
#: Compiled choices from which each greedy extraction starts, too.
_STARTS = 2
#: Choices of Lagrange steps that need too much SRAM, after which there are no more steps.
_MISSES = 3
#: Share of the least SRAM so far at which rounds for less SRAM aim.
_STEP = 0.9
#: Rounds towards one such aim.
_PER_STEP = 3
#: Most such aims; the effort may allow fewer.
_MOST = 8


class MemoryRounds(RoundsWithin):
    """Rounds that add to the graphs found by cycles, within each limit that the decision aims at."""

    called = "rounds for memory"

    def _run(self) -> str:
        most, share, before = EFFORTS[self.search.options.effort].memory_rounds, 0.0, MemoryLimits()
        for decision in self.decision.wider_aims:
            if decision.limits == before.widest and self._earns_too_little(decision, before, share):
                logger.info("no rounds for memory, within %s: more flash would not pay", decision.limits)
                continue
            before = decision.limits
            if self._fits_in_settings(decision):
                told = "no rounds for memory, within %s: the fastest graph fits in other settings of Vela"
                logger.info(told, decision.limits)
                continue
            share = self._approach(_Approach(self.search, self.explored, decision, most, share))
            if decision.objective != CYCLES:
                self._shrink(decision, min(most, _MOST))
        return ""

    def _earns_too_little(self, decision: Decision, limits: MemoryLimits, share: float) -> bool:
        """Whether the cheapest choice fits limits at a lower price of flash than the flash beyond them has to earn.

        share: the price of all the memory allowed at which rounds within the limits ended; 0: none were needed.
        A Pareto set has graphs with more flash whatever they save.
        """
        if decision.objective != CYCLES:
            return False
        return 0 < share < limits.earning_share and any(limits.fits(c.figures) for c in self.graphs)

    def _fits_in_settings(self, decision: Decision) -> bool:
        """Whether the fastest graph does not fit, but does about as fast in other settings of Vela."""
        if not self.search.with_settings or decision.objective != CYCLES or not self.graphs:
            return False
        fastest = min(self.graphs, key=lambda c: c.figures)
        if decision.limits.fits(fastest.figures):
            return False
        best = in_best_settings(self.search, decision, fastest).figures
        return decision.limits.fits(best) and best.cycles <= (1 + _NEAR) * fastest.figures.cycles

    def _shrink(self, decision: Decision, most: int) -> None:
        """Searches for graphs with less SRAM than the best so far, a step at a time."""
        decision, best = replace(decision, objective=SRAM), None
        for _ in range(most):
            least = min(self.graphs, key=lambda c: decision.rank(c.figures), default=None)
            if least is None or least is best:
                return
            best = least
            limits = replace(decision.limits, sram=int(_STEP * best.figures.sram))
            self._approach(_Descent(self.search, self.explored, replace(decision, limits=limits), _PER_STEP))

    def _approach(self, rounds: _Approach) -> float:
        """Runs rounds and returns the price at which they ended."""
        self.explored = rounds.run()
        return rounds.share


class _Approach(RoundsWithin):
    """Rounds until a graph within the limits is about as fast as the fastest.

    The first one extracts greedily with prices on memory.
    The next ones extract by Lagrange steps within budgets, as long as these find better choices.
    The others go on with prices on memory.
    These rise until a graph fits, and then fall, by smaller and smaller factors.

    most: rounds.
    share: the price of all the memory allowed, as a share of the cycles, at which rounds within tighter limits ended;
        0: there were none with prices.
    """

    aim = "a graph that fits is about as fast as the fastest"
    first, factor, most_misses = _FIRST, _FACTOR, _MISSES

    def __init__(self, search: Search, explored: Explored, decision: Decision, most: int, share: float = 0.0) -> None:
        super().__init__(search, explored, decision)
        self.most = most
        self.use = MemoryUse(self.choices, search.target, self.limits)
        self.learnt = set[bytes]()
        # the graph from whose flash that of others is counted, and bytes by which they exceeded that
        self.near: Compiled | None = None
        self.margin = 0.0
        self.share = share
        if share:
            self.factor = math.sqrt(self.factor)
        self.fitted = False
        # whether Lagrange steps may find something better, and their choices that need too much SRAM
        self.goes_on, self.misses = True, 0

    @property
    def called(self) -> str:
        return f"rounds for memory, within {self.limits},"

    def _run(self) -> str:
        fruitless = 0
        for number in range(self.most):
            before = self._reached()
            if self._is_done():
                return self.aim
            if fruitless == (_FRUITLESS if before[0] < math.inf else _HOPELESS):
                return f"{fruitless} in a row found nothing better"
            self._learn()
            if number and self.goes_on:
                self.goes_on = self._step(number)
                if self.goes_on:
                    continue
            if not self._price(number):
                return "the prices of memory change too little"
            fruitless = fruitless + 1 if self._reached() >= before else 0
        return f"all {self.most} rounds were made"

    def _is_done(self) -> bool:
        fastest = min((c.figures.cycles for c in self.graphs), default=math.inf)
        return self._reached()[0] <= (1 + _NEAR) * fastest

    def _reached(self) -> tuple[float, float]:
        """Returns the cycles of the fastest graph that fits, then the least excess of all; less is better."""
        figures = [c.figures for c in self.graphs]
        fits = (f.cycles for f in figures if self.limits.fits(f))
        return min(fits, default=math.inf), min(map(self.limits.excess, figures), default=math.inf)

    def _learn(self) -> None:
        """Learns the memory that choices take from the graphs that are new."""
        for c in (c for tosa, c in self.explored.by_tosa.items() if c and tosa not in self.learnt):
            self.use.learn(self.choices, self.choices.tensor_graph(c.choice), c.estimate)
        self.learnt.update(self.explored.by_tosa)

    def _step(self, number: int) -> bool:
        """Compiles the cheapest choice of Lagrange steps within the budgets; returns whether there may be a better one.

        The budgets know flash well, and SRAM only by where other graphs ran short of it.
        """
        near = self.near or min(self.graphs, key=self._rank)
        budgets = self.use.budgets(self.choices, self.graphs, near, self.margin)
        limit, known = self.search.options.time_limit, [c.choice for c in self.graphs]
        with self.search.extracting():
            starts = {id(c): c.choice for c in (min(self.graphs, key=self._cost), near)}
            met = steps(self.choices.graph, budgets, list(starts.values()), time_limit=limit, seed=number)
        within = [choice for choice in met if choice not in known and not any(b.excess(choice) for b in budgets)]
        found = min(
            (_extraction(self.choices, choice, _STEPS) for choice in within), key=lambda e: e.cost, default=None
        )
        if found is None:
            return False
        fits = min((c for c in self.graphs if self.limits.fits(c.figures)), key=lambda c: c.figures, default=None)
        gains, known_graphs = fits is None or self._cost(fits) > found.cost, len(self.explored.by_tosa)
        compiled, _ = self._add(found, _STEPS, number)
        if len(self.explored.by_tosa) == known_graphs:
            return False
        if compiled is None or not replace(self.limits, flash=None).fits(compiled.figures):
            self.misses += 1
            return self.misses < self.most_misses
        self.near = compiled
        self.margin = max(0.0, self.margin + compiled.figures.flash - (self.limits.flash or math.inf))
        return gains or not self.limits.fits(compiled.figures)

    def _over(self) -> Figures:
        """Returns the figures of a graph from which one that fits is searched: fast, with little excess."""
        over = (c.figures for c in self.graphs if not self.limits.fits(c.figures))
        return min(over, key=lambda f: f.cycles * (1 + self.limits.excess(f)))

    def _price(self, number: int) -> bool:
        """Compiles choices at the next prices on memory; returns whether there are any."""
        over, limits = self._over(), self.limits
        if self.factor < _CLOSE:
            return False
        self.share = self.share or self.first / limits.excess(over)
        charged = self.use.charged(self.choices, _rates(over, limits, self.share))
        with self.search.extracting():
            extractions = self._extracted(charged)
        for e in extractions[1:]:  # while the first is compiled
            self._begin(e.choice)
        found = [self._add(e, _PRICED, number)[0] for e in extractions]
        fits = any(limits.fits(c.figures) for c in found if c)
        if fits != self.fitted:
            self.factor = math.sqrt(self.factor)
        self.share, self.fitted = self.share / self.factor if fits else self.share * self.factor, fits
        return True

    def _extracted(self, charged: Choices) -> list[Extraction]:
        """Returns greedy extractions under other prices, each at its price without memory.

        One starts from scratch and from the cheapest compiled choices.
        Another one is the better with views free or as copies.
        """
        known = sorted((c.choice for c in self.graphs), key=lambda choice: check(charged.graph, choice))
        greedy = partial(dag_greedy.extract, time_limit=self.search.options.time_limit, restarts=1)

        def exactly() -> Mapping[int, int]:
            return greedy(charged.graph, starts=known[:_STARTS]).choice

        def relaxed() -> Mapping[int, int]:
            every = [charged.settled(greedy(charged.relaxed(copied)).choice).choice for copied in (False, True)]
            return min(every, key=lambda choice: check(charged.graph, choice))

        found = beside(exactly, relaxed, self.search.interruption.check) if charged.last else (exactly(),)
        return [_extraction(self.choices, choice, _PRICED) for choice in found]

    def _rank(self, c: Compiled) -> tuple[float, int]:
        return self.limits.excess(c.figures), c.figures.cycles

    def _cost(self, c: Compiled) -> float:
        return check(self.choices.graph, c.choice)


class _Descent(_Approach):
    """Rounds until a graph is within the limits, at no more cycles than stock's.

    Prices on memory dominate those of cycles early.
    """

    aim = "a graph is within the limits"
    first, factor, most_misses = _FIRST_DESCENT, _FACTOR_DESCENT, 1

    def _is_done(self) -> bool:
        return any(self.decision.rank(c.figures)[0] == 0 for c in self.graphs)


def _extraction(choices: Choices, choice: Mapping[int, int], extractor: str) -> Extraction:
    """Returns a choice at its price without memory."""
    return Extraction(dict(choice), check(choices.graph, choice), -math.inf, "feasible", [], 0.0, extractor)


def _rates(over: Figures, limits: MemoryLimits, share: float) -> MemoryPrices:
    """Returns prices at which all of the allowed memory costs `share` times the graph's cycles.

    Only SRAM or flash that the graph exceeds has a price.
    """
    used = (over.sram, limits.sram), (over.flash, limits.flash)
    return MemoryPrices(
        *(share * over.cycles / max(1, most) if most is not None and n > most else 0.0 for n, most in used)
    )
