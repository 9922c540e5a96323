"""Rounds of extraction within the limits of a decision, each of which yields choices and learns from their graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from eqsat.choice.compiled import Compiled
from eqsat.ground.forked import beside
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.search.memory_use import MemoryPrices, MemoryUse
from eqsat.search.proposal import Ask
from eqsat.search.state import State
from extraction import Extraction, check, dag_greedy
from extraction.lagrange import steps

#: Names in records: of Lagrange steps, and of extraction with prices on memory.
_STEPS, _PRICED = "lagrange", "dag_greedy with memory"
#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
NEAR = 0.01
#: Rounds in a row with prices on memory that find nothing better, after which rounds end.
_FRUITLESS = 3
#: Rounds in a row with prices on memory that come no nearer to the limits, after which rounds end if nothing fits.
_HOPELESS = 4
#: Factor between prices below which they are not tried any more.
_CLOSE = 1.3
#: Compiled choices from which each greedy extraction starts, too.
_STARTS = 2


@dataclass(frozen=True, slots=True)
class Way:
    """How prices on memory are sought.

    most: rounds.
    first: price of all excess memory at first, as a share of the graph's cycles.
    factor: by which that price rises and falls at first; its root after each turn.
    misses: choices of Lagrange steps that need too much SRAM, after which there are no more steps.
    is_done: whether graphs need no further rounds.
    """

    most: int
    first: float
    factor: float
    misses: int
    is_done: Callable[[Sequence[Compiled], Decision], bool]


def _is_about_as_fast(graphs: Sequence[Compiled], decision: Decision) -> bool:
    """Whether a graph that fits is about as fast as the fastest."""
    fits = (c.figures.cycles for c in graphs if decision.limits.fits(c.figures))
    return min(fits, default=math.inf) <= (1 + NEAR) * min(c.figures.cycles for c in graphs)


def _is_within(graphs: Sequence[Compiled], decision: Decision) -> bool:
    """Whether a graph is within the limits, at no more cycles than stock's."""
    return any(decision.rank_of(c)[0] == 0 for c in graphs)


TO_FIT = Way(14, 0.5, 6.0, 3, _is_about_as_fast)
TO_SHRINK = Way(3, 1.0, 25.0, 1, _is_within)


class Rounds:
    """Rounds within the limits of a decision.

    The first one extracts greedily with prices on memory.
    The next ones extract by Lagrange steps within budgets, as long as these find better choices.
    The others go on with prices on memory.
    These rise until a graph fits, and then fall, by smaller and smaller factors.
    """

    def __init__(self, state: State, decision: Decision, way: Way, share: float = 0.0) -> None:
        """share: the price of all memory, as a share of the cycles, at which rounds before ended; 0: without any."""
        self.decision, self.limits, self.way, self.share = decision, decision.limits, way, share
        self.use = MemoryUse(state.priced, state.target, self.limits)
        self.factor = math.sqrt(way.factor) if share else way.factor
        self.learnt = set[Compiled]()
        # the graph from whose flash that of others is counted, and bytes by which they exceeded that
        self.near: Compiled | None = None
        self.margin = 0.0
        self.fitted = False
        # whether Lagrange steps may find something better, and their choices that need too much SRAM
        self.goes_on, self.misses = True, 0

    def run(self, state: State) -> Generator[Ask, State, State]:
        fruitless = 0
        for number in range(self.way.most):
            before = self._reached(state)
            if self.way.is_done(state.extracted, self.decision):
                break
            if fruitless == (_FRUITLESS if before[0] < math.inf else _HOPELESS):
                break
            self._learn(state)
            if number and self.goes_on and (found := self._step(state, number)):
                known = len(state.compiled)
                gains = self._gains(state, found)
                state = yield Ask([state.chosen(found, _STEPS)])
                self.goes_on = len(state.compiled) > known and self._may_go_on(state.results[0], gains)
                if self.goes_on:
                    continue
            self.goes_on = self.goes_on and not number
            if self.factor < _CLOSE:
                break
            state = yield Ask([state.chosen(found, _PRICED) for found in self._priced(state)])
            self._turn(state)
            fruitless = fruitless + 1 if self._reached(state) >= before else 0
        return state

    def _reached(self, state: State) -> tuple[float, float]:
        """Returns the cycles of the fastest graph that fits, then the least excess of all; less is better."""
        figures = [c.figures for c in state.extracted]
        fits = (f.cycles for f in figures if self.limits.fits(f))
        return min(fits, default=math.inf), min(map(self.limits.excess, figures), default=math.inf)

    def _learn(self, state: State) -> None:
        """Learns the memory that choices take from the graphs that are new."""
        for c in (c for c in state.extracted if c not in self.learnt):
            self.use.learn(state.priced, state.priced.tensor_graph(c.choice), c.estimate)
            self.learnt.add(c)

    def _step(self, state: State, number: int) -> Extraction | None:
        """Returns the cheapest choice of Lagrange steps within the budgets, None if they find no other.

        The budgets know flash well, and SRAM only by where other graphs ran short of it.
        """
        graphs = state.extracted
        near = self.near or min(graphs, key=lambda c: (self.limits.excess(c.figures), c.figures.cycles))
        budgets = self.use.budgets(state.priced, graphs, near, self.margin)
        starts = dict.fromkeys((min(graphs, key=lambda c: state.cost(c.choice)), near))
        limit, known = state.options.time_limit, [c.choice for c in graphs]
        met = steps(state.priced.graph, budgets, [c.choice for c in starts], time_limit=limit, seed=number)
        within = [choice for choice in met if choice not in known and not any(b.excess(choice) for b in budgets)]
        choice = min(within, key=state.cost, default=None)
        return None if choice is None else state.extraction(choice, _STEPS)

    def _gains(self, state: State, found: Extraction) -> bool:
        """Whether a choice costs less than that of the fastest graph that fits."""
        fitting = [c for c in state.extracted if self.limits.fits(c.figures)]
        fits = min(fitting, key=lambda c: c.figures, default=None)
        return fits is None or state.cost(fits.choice) > found.cost

    def _may_go_on(self, new: Compiled | None, gains: bool) -> bool:
        """Returns whether another Lagrange step may find something better than a new graph."""
        if new is None or not replace(self.limits, flash=None).fits(new.figures):
            self.misses += 1
            return self.misses < self.way.misses
        self.near = new
        self.margin = max(0.0, self.margin + new.figures.flash - (self.limits.flash or math.inf))
        return gains or not self.limits.fits(new.figures)

    def _priced(self, state: State) -> list[Extraction]:
        """Returns choices at the next prices on memory, each at its price without memory.

        One starts from scratch and from the cheapest compiled choices.
        Another one is the better with views free or as copies.
        """
        over = self._over(state.extracted)
        self.share = self.share or self.way.first / self.limits.excess(over)
        charged = self.use.charged(state.priced, _rates(over, self.limits, self.share))
        known = sorted((c.choice for c in state.extracted), key=lambda choice: check(charged.graph, choice))
        greedy = partial(dag_greedy.extract, time_limit=state.options.time_limit, restarts=1)

        def exactly() -> Mapping[int, int]:
            return greedy(charged.graph, starts=known[:_STARTS]).choice

        def relaxed() -> Mapping[int, int]:
            every = [charged.settled(greedy(charged.relaxed(copied)).choice).choice for copied in (False, True)]
            return min(every, key=lambda choice: check(charged.graph, choice))

        found = beside(exactly, relaxed) if charged.last else (exactly(),)
        return [state.extraction(choice, _PRICED) for choice in found]

    def _over(self, graphs: Sequence[Compiled]) -> Figures:
        """Returns the figures of a graph from which one that fits is searched: fast, with little excess."""
        over = (c.figures for c in graphs if not self.limits.fits(c.figures))
        return min(over, key=lambda f: f.cycles * (1 + self.limits.excess(f)))

    def _turn(self, state: State) -> None:
        """Lowers the price if a new graph fits, and raises it if none does, by less at each turn."""
        fits = any(self.limits.fits(c.figures) for c in state.results if c)
        if fits != self.fitted:
            self.factor = math.sqrt(self.factor)
        self.share, self.fitted = self.share / self.factor if fits else self.share * self.factor, fits


def _rates(over: Figures, limits: MemoryLimits, share: float) -> MemoryPrices:
    """Returns prices at which all of the allowed memory costs `share` times the graph's cycles.

    Only SRAM or flash that the graph exceeds has a price.
    """
    used = (over.sram, limits.sram), (over.flash, limits.flash)
    return MemoryPrices(
        *(share * over.cycles / max(1, most) if most is not None and n > most else 0.0 for n, most in used)
    )
