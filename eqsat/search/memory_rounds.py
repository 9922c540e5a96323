"""Rounds of greedy extraction with prices on memory (`memory.py`).

They run if the fastest graph exceeds the limits, and if less SRAM is wanted.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.options.effort import EFFORTS
from eqsat.options.options import CYCLES, SRAM
from eqsat.search.explored import Explored, RoundsWithin
from eqsat.search.less_memory import fastest_that_fits, fits_nearly
from eqsat.search.memory import MemoryPrices, Rates
from eqsat.search.search import Search
from extraction import Extraction, check, dag_greedy
from extraction.within import GAP, within

#: The extractor's name in logs and records.
_NAME = "dag_greedy with memory"
#: Rounds in a row without a faster graph that fits, after which the search for one ends.
_FRUITLESS = 6
#: Price of all excess memory in the first round, as a share of the graph's cycles.
_FIRST = 0.5
#: Initial factor by which that price rises and falls.
_FACTOR = 6.0
#: Factor below which the rounds end.
_CLOSE = 1.3
#: Repairs in a row without a new graph, after which repairs end.
_MISSES = 2
#: Price of flash in a repair, as a multiple of the rate between fitting and exceeding graphs.
_STEEP = 1.5
#: Compiled choices from which each greedy extraction starts, too.
_STARTS = 2
#: The name of the integer program in logs and records.
_SOLVER = "within"
#: Most solutions of the integer program, each with the corrections of the last graph.
_SOLVED = 8
#: Prices of memory, as shares of the cycles, whose greedy choices the integer program combines.
_SHARES = (0.3, 1.0, 3.0, 10.0, 40.0)
#: Choice nodes above which the integer program is not tried: each extraction takes seconds there.
_MOST_NODES = 20_000
#: Seconds for one solution; one that is found takes about one second.
_SECONDS = 4.0
#: Share of the least SRAM so far at which each round for less SRAM aims.
_STEP = 0.9
#: Most rounds for less SRAM; the effort may allow fewer.
_MOST = 8


class MemoryRounds(RoundsWithin):
    """Rounds that add to the graphs found by cycles."""

    def __init__(self, search: Search, explored: Explored, decision: Decision) -> None:
        super().__init__(search, explored, decision)
        self.most = EFFORTS[search.options.effort].memory_rounds
        self.repaired: list[Compiled] = []

    @cached_property
    def prices(self) -> MemoryPrices:
        return MemoryPrices(self.choices, self.search.target)

    def _run(self) -> None:
        self._fit()
        if self.decision.objective != CYCLES:
            self._shrink()

    def _fit(self) -> None:
        """Searches for a graph within the limits that is about as fast as the fastest.

        Prices on memory rise until a graph fits, and then fall, by smaller and smaller factors.
        They have to be tried, since each compiled graph changes the known bytes of commands.
        """
        limits, learnt = self.limits, set[bytes]()
        share, factor, fitted, fruitless = 0.0, _FACTOR, False, 0
        for number in range(self.most):
            over, best = self._over(), self._fastest_that_fits()
            if over is None or fruitless == _FRUITLESS or factor < _CLOSE:
                break
            share = share or _FIRST / limits.excess(over)
            self._learn(limits, learnt)
            with self.search.extracting():
                extractions = self._priced(self.prices.charged(self.choices, _rates(over, limits, share)))
            found = self._with_memory(extractions, number)
            fits = any(limits.fits(c.figures) for c in found)
            if fits != fitted and number:
                factor = math.sqrt(factor)
            share, fitted = share / factor if fits else share * factor, fits
            fruitless = fruitless + 1 if best <= self._fastest_that_fits() < math.inf else 0
        self._repair(learnt)
        self._solve(learnt)

    def _repair(self, learnt: set[bytes]) -> None:
        misses = 0
        for number in range(self.most, 2 * self.most):
            if self._over() is None or misses == _MISSES:
                return
            self._learn(self.limits, learnt)
            misses = 0 if self._repaired(number) else misses + 1

    def _repaired(self, number: int) -> bool:
        """Changes a graph that exceeds the limit of flash until it fits, but no further.

        Returns False if that gives no new graph.
        If a byte is worth about the same everywhere, a price on flash
        changes either nothing or everything.
        """
        limits = self.limits
        known, fastest = self.graphs, self._fastest()
        if limits.flash is None or fastest is None:
            return False
        fitting = fastest.figures
        able = [c for c in known if c not in self.repaired and replace(limits, flash=None).fits(c.figures)]
        over = [c for c in able if c.figures.cycles < fitting.cycles]
        if not over:
            return False
        rate = max((fitting.cycles - c.figures.cycles) / (c.figures.flash - fitting.flash) for c in over)
        start = min(over, key=lambda c: c.figures.cycles + rate * c.figures.flash)
        self.repaired.append(start)
        flash = np.zeros(self.choices.graph.n_nodes)
        flash[: len(self.choices.candidates)] = self.prices.flash(self.choices)
        most = flash[list(start.choice.values())].sum() - (start.figures.flash - limits.flash)
        charged = self.prices.charged(self.choices, Rates(0.0, _STEEP * rate)).graph
        limit = self.search.options.time_limit
        with self.search.extracting():
            choice = dag_greedy.improved_until(
                charged, start.choice, lambda c: flash[list(c.values())].sum() <= most, time_limit=limit, seed=number
            )
        before = len(self.explored.by_tosa)
        self._with_memory([self._at_own_price(choice)], number)
        return len(self.explored.by_tosa) > before

    def _solve(self, learnt: set[bytes]) -> None:
        """Searches for graphs between those that fit and those that do not, by an integer program.

        Flash is a budget there, so no price per byte is needed.
        The program combines the choices of compiled graphs and of greedy
        extraction under many prices of memory.
        All other choices are far too many, and few of them matter.
        """
        if self.choices.graph.n_nodes > _MOST_NODES:
            return
        pool, seen, is_fresh = set[int](), list[Mapping[int, int]](), False
        near: Compiled | None = None
        for number in range(_SOLVED):
            over, limits = self._over(), self.limits
            if over is None or limits.flash is None or over.flash <= limits.flash:
                return
            self._learn(limits, learnt)
            near = near or min(self.graphs, key=lambda c: limits.excess(c.figures))
            found = self._within(near, pool) if pool else None
            if found is None or found.choice in seen:
                if is_fresh:
                    return
                pool |= self._under_many_prices(over)
                found = self._within(near, pool)
                is_fresh = True
            if found is None or found.choice in seen:
                return
            seen.append(found.choice)
            is_last = self._gains_nothing(found)
            compiled, differs = self._add(found, _SOLVER, number)
            if is_last:
                return
            near, is_fresh = compiled or near, is_fresh and not differs

    def _gains_nothing(self, found: Extraction) -> bool:
        """Whether the fastest graph that fits costs hardly more than the
        cheapest choice within the limits.
        """
        fastest = self._fastest()
        return fastest is not None and check(self.choices.graph, fastest.choice) <= (1 + GAP) * found.cost

    def _under_many_prices(self, over: Figures) -> set[int]:
        """Returns the choice nodes that greedy extraction takes at the prices `_SHARES`."""
        found = set[int]()
        for share in _SHARES:
            with self.search.extracting():
                charged = self.prices.charged(self.choices, _rates(over, self.limits, share))
                for extraction in self._priced(charged):
                    found.update(extraction.choice.values())
        return found

    def _within(self, near: Compiled, pool: set[int]) -> Extraction | None:
        """Returns the cheapest choice within the limits among the pool and the compiled graphs.

        All views may be chosen.
        Returns None if no choice was found.
        """
        graph, known = self.choices.graph, len(self.choices.candidates)
        among = pool.union(*(c.choice.values() for c in self.graphs))
        others = frozenset(n for n in range(known) if n not in among)
        with self.search.extracting():
            budgets = self.prices.budgets(self.choices, near, self.limits)
            seconds = min(_SECONDS, self.search.options.time_limit)
            return within(replace(graph, forbidden=graph.forbidden | others), budgets, time_limit=seconds)

    def _with_memory(self, extractions: Sequence[Extraction], number: int) -> list[Compiled]:
        """Compiles extractions, and returns the graphs that Vela accepts."""
        compiled = [self._add(e, _NAME, number)[0] for e in extractions]
        return [c for c in compiled if c]

    def _shrink(self) -> None:
        """Searches for graphs with less SRAM than the best so far, a step at a time.

        It ends if even prices that make SRAM dominant find none.
        """
        decision, best, learnt = replace(self.decision, objective=SRAM), None, set[bytes]()
        shares: list[float] = []
        for number in range(2 * self.most, 2 * self.most + min(self.most, _MOST)):
            least = min(self.graphs, key=lambda c: decision.rank(c.figures), default=None)
            if least is None or least is best and not shares:
                return
            if least is not best:
                best, shares = least, [1.0, 25.0]
                learnt.clear()
            target = replace(decision.limits, sram=int(_STEP * best.figures.sram))
            self._learn(target, learnt)
            rates = _rates(best.figures, target, shares.pop(0) / (1 - _STEP))
            with self.search.extracting():
                extractions = self._priced(self.prices.charged(self.choices, rates))
            self._with_memory(extractions, number)

    def _learn(self, limits: MemoryLimits, learnt: set[bytes]) -> None:
        """Learns prices on memory from the graphs that are not in `learnt`, and adds them to it."""
        for c in (c for tosa, c in self.explored.by_tosa.items() if c and tosa not in learnt):
            self.prices.learn(self.choices, self.choices.tensor_graph(c.choice), c.estimate, limits)
        learnt.update(self.explored.by_tosa)

    def _fastest(self) -> Compiled | None:
        """Returns the fastest graph that fits, None if none does."""
        limits = self.limits
        return min((c for c in self.graphs if limits.fits(c.figures)), key=lambda c: c.figures, default=None)

    def _fastest_that_fits(self) -> float:
        """Returns the cycles of the fastest graph that fits, inf if none does."""
        return fastest_that_fits(self.graphs, self.limits)

    def _over(self) -> Figures | None:
        """Returns the figures from which a fitting graph is searched: fast, with little excess.

        Returns None if a graph that fits is about as fast as the fastest.
        """
        limits, known = self.limits, self.graphs
        if fits_nearly(known, limits):
            return None
        over = [c.figures for c in known if not limits.fits(c.figures)]
        return min(over, key=lambda f: f.cycles * (1 + limits.excess(f)), default=None)

    def _priced(self, charged: Choices) -> list[Extraction]:
        """Returns greedy extractions under other prices, each at its price without memory.

        One starts from scratch and from the cheapest compiled choices.
        Another one is the better with views free or as copies.
        """
        known = sorted((c.choice for c in self.graphs), key=lambda choice: check(charged.graph, choice))
        greedy = partial(dag_greedy.extract, time_limit=self.search.options.time_limit, restarts=1)
        found = [greedy(charged.graph, starts=known[:_STARTS]).choice]
        if charged.last:
            relaxed = (charged.settled(greedy(charged.relaxed(copied)).choice).choice for copied in (False, True))
            found.append(min(relaxed, key=lambda choice: check(charged.graph, choice)))
        return [self._at_own_price(choice) for choice in found]

    def _at_own_price(self, choice: Mapping[int, int]) -> Extraction:
        cost = check(self.choices.graph, choice)
        return Extraction(dict(choice), cost, -math.inf, "feasible", [], 0.0, _NAME)


def _rates(over: Figures, limits: MemoryLimits, share: float) -> Rates:
    """Returns prices at which all of the allowed memory costs `share` times the graph's cycles.

    Only SRAM or flash that the graph exceeds has a price.
    """
    used = (over.sram, limits.sram), (over.flash, limits.flash)
    return Rates(*(share * over.cycles / max(1, most) if most is not None and n > most else 0.0 for n, most in used))
