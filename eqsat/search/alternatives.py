"""Alternatives to a graph: what extraction finds in its e-graph, each compiled whole by Vela.

    search = Search(target, pool, options)
    compiled = search.alternatives(frozen)

Greedy extraction starts, also from choice graphs in which views are free or copies, and the extractor of the options goes on from the best
that it found. Each of them runs for several rounds: Vela's table of one round's graph corrects the prices of the next.
Where the fastest graph needs more memory than it may, further rounds of greedy extraction have prices on memory, too (`memory.py`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

import cost_models
from cost_models.cache import PriceCache
from cost_models.protocol import CostModel
from eqsat.egraph.encoding import Frozen
from eqsat.search.choice import Choices, build
from eqsat.search.clock import Clock
from eqsat.search.correction import corrected
from eqsat.search.decision import Decision, Figures, MemoryLimits
from eqsat.search.effort import EFFORTS
from eqsat.search.memory import MemoryPrices, Rates
from eqsat.search.options import CYCLES, SRAM, Options
from eqsat.search.plugins import checked_extraction
from eqsat.search.regions import computed_classes
from eqsat.search.result import Extracted
from eqsat.search.unpriced import unpriced
from eqsat.search.verification import Compiled
from eqsat.search.writer import Written
from eqsat.target import Target
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.workers.worker import Pool, WorkerError
from extraction import Extraction, Infeasible, check, dag_greedy, extract

logger = logging.getLogger(__name__)

_GREEDY = "dag_greedy"
#: After how many rounds that found no faster graph that fits they end; what the memory which is too much costs
#: in the first, as a share of the cycles; and by what that rises and falls at first.
_FRUITLESS, _FIRST, _FACTOR = 6, 0.5, 6.0
#: Such rounds end where prices change by less than this; then graphs are repaired, at the price of memory that is between what
#: fits and what does not, so many times over; these end where so many in a row give nothing new.
_CLOSE, _MISSES, _STEEP = 1.3, 2, 1.5
#: Choices that were compiled before from which such a round starts, too.
_STARTS = 2
#: No such rounds where a graph that fits is slower by this share at most.
_NEAR = 0.01
#: For less SRAM each round aims at this share of the least so far; rounds at most, if effort allows as many.
_STEP, _MOST = 0.9, 8


@dataclass(slots=True)
class Search:
    """Of one optimization. decision: what the answer is chosen by; warnings: what went wrong, for the user; extractions: each choice that was
    compiled."""

    target: Target
    pool: Pool
    options: Options
    decision: Decision = Decision()
    clock: Clock = field(default_factory=Clock)
    warnings: list[str] = field(default_factory=list)
    extractions: list[Extracted] = field(default_factory=list)

    def alternatives(self, frozen: Frozen) -> list[Compiled]:
        """Distinct graphs of an e-graph that Vela takes. Raises Infeasible if nothing can be extracted, WorkerError if nothing can be priced."""
        prices = PriceCache(self.options.cache)
        try:
            model = cost_models.find(self.options.cost_model)(self.target, self.pool, prices)
            return _Extractions(self, frozen, model).run()
        finally:
            prices.close()


class _Extractions:
    """From one e-graph, under one model's prices. choices: with the prices as they are known by now."""

    choices: Choices

    def __init__(self, search: Search, frozen: Frozen, model: CostModel) -> None:
        self.search, self.frozen, self.model = search, frozen, model
        self.most = EFFORTS[search.options.effort].memory_rounds
        self.repaired: list[Compiled] = []
        self.compiled: dict[bytes, Compiled | None] = {}  # None: Vela refuses it

    def run(self) -> list[Compiled]:
        with self.search.clock.stage("price"):
            self.choices = build(self.frozen, self.model)
        try:
            self._extract()
        except Infeasible as e:
            refused = unpriced(self.choices)
            raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e
        return [replace(c, choices=self.choices) for c in self.compiled.values() if c]

    def _extract(self) -> None:
        starts = []
        if self.choices.last:
            starts = [
                self._rounds(_GREEDY, lambda _, copied=copied: self._relaxed(self.choices, copied))  # type: ignore[misc]
                for copied in (False, True)
            ]
        starts.append(self._rounds(_GREEDY, partial(self._again, _GREEDY)))
        extractor = self.search.options.extractor
        if extractor != _GREEDY:
            best = min(starts, key=lambda found: check(self.choices.graph, found.choice))
            self._rounds(extractor, lambda found: self._again(extractor, found or best))
        self._with_memory_prices()

    def _with_memory_prices(self) -> None:
        prices = MemoryPrices(self.choices, self.search.target)
        self._fit(prices)
        if self.search.decision.objective != CYCLES:
            self._shrink(prices)

    def _fit(self, prices: MemoryPrices) -> None:
        """Looks for a graph within the limits that is about as fast as the fastest: prices on memory rise as long as none fits and then fall, by ever
        less, since what is learnt of commands from each graph changes which prices do."""
        limits, learnt = self.search.decision.limits, set[bytes]()
        share, factor, fitted, fruitless = 0.0, _FACTOR, False, 0
        for number in range(self.most):
            over, best = self._over(), self._fastest_that_fits()
            if over is None or fruitless == _FRUITLESS or factor < _CLOSE:
                break
            share = share or _FIRST / limits.excess(over)
            self._learn(prices, limits, learnt)
            with self.search.clock.stage("extract"):
                extractions = self._priced(prices.charged(self.choices, _rates(over, limits, share)))
            found = self._with_memory(extractions, number)
            fits = any(limits.fits(c.figures) for c in found)
            if fits != fitted and number:
                factor = math.sqrt(factor)
            share, fitted = share / factor if fits else share * factor, fits
            fruitless = fruitless + 1 if best <= self._fastest_that_fits() < math.inf else 0
        self._repair(prices, learnt)

    def _repair(self, prices: MemoryPrices, learnt: set[bytes]) -> None:
        misses = 0
        for number in range(self.most, 2 * self.most):
            if self._over() is None or misses == _MISSES:
                return
            self._learn(prices, self.search.decision.limits, learnt)
            misses = 0 if self._repaired(prices, number) else misses + 1

    def _repaired(self, prices: MemoryPrices, number: int) -> bool:
        """Changes a graph that exceeds the limit of flash only so far that it fits; False if that gives nothing new. Where a byte is worth about the same
        everywhere in a graph, a price on it changes either nothing or all of it."""
        limits = self.search.decision.limits
        known = [c for c in self.compiled.values() if c]
        fitting = min((c.figures for c in known if limits.fits(c.figures)), default=None)
        if limits.flash is None or fitting is None:
            return False
        able = [c for c in known if c not in self.repaired and replace(limits, flash=None).fits(c.figures)]
        over = [c for c in able if c.figures.cycles < fitting.cycles]
        if not over:
            return False
        rate = max((fitting.cycles - c.figures.cycles) / (c.figures.flash - fitting.flash) for c in over)
        start = min(over, key=lambda c: c.figures.cycles + rate * c.figures.flash)
        self.repaired.append(start)
        flash = np.zeros(self.choices.graph.n_nodes)
        flash[: len(self.choices.candidates)] = prices.flash(self.choices)
        most = flash[list(start.choice.values())].sum() - (start.figures.flash - limits.flash)
        charged = prices.charged(self.choices, Rates(0.0, _STEEP * rate)).graph
        limit = self.search.options.time_limit
        with self.search.clock.stage("extract"):
            choice = dag_greedy.improved_until(
                charged, start.choice, lambda c: flash[list(c.values())].sum() <= most, time_limit=limit, seed=number
            )
        before = len(self.compiled)
        self._with_memory([self._at_own_price(choice)], number)
        return len(self.compiled) > before

    def _with_memory(self, extractions: Sequence[Extraction], number: int) -> list[Compiled]:
        """Those that Vela takes."""
        compiled = [self._compile(e, f"{_GREEDY} with memory", number)[0] for e in extractions]
        return [c for c in compiled if c]

    def _shrink(self, prices: MemoryPrices) -> None:
        """Looks for graphs that need less SRAM than the best so far, a step at a time, until prices that make SRAM all that counts find none."""
        decision, best, learnt = replace(self.search.decision, objective=SRAM), None, set[bytes]()
        shares: list[float] = []
        for number in range(2 * self.most, 2 * self.most + min(self.most, _MOST)):
            least = min((c for c in self.compiled.values() if c), key=lambda c: decision.rank(c.figures), default=None)
            if least is None or least is best and not shares:
                return
            if least is not best:
                best, shares = least, [1.0, 25.0]
                learnt.clear()
            target = replace(decision.limits, sram=int(_STEP * best.figures.sram))
            self._learn(prices, target, learnt)
            rates = _rates(best.figures, target, shares.pop(0) / (1 - _STEP))
            with self.search.clock.stage("extract"):
                extractions = self._priced(prices.charged(self.choices, rates))
            self._with_memory(extractions, number)

    def _learn(self, prices: MemoryPrices, limits: MemoryLimits, learnt: set[bytes]) -> None:
        """From the graphs that are not among those of `learnt`, which is filled up."""
        for c in (c for tosa, c in self.compiled.items() if c and tosa not in learnt):
            prices.learn(self.choices, self.choices.tensor_graph(c.choice), c.estimate, limits)
        learnt.update(self.compiled)

    def _fastest_that_fits(self) -> float:
        """Cycles, inf if none fits."""
        limits, known = self.search.decision.limits, [c.figures for c in self.compiled.values() if c]
        return min((f.cycles for f in known if limits.fits(f)), default=math.inf)

    def _over(self) -> Figures | None:
        """What a graph that fits is looked for from, if none that fits is about as fast as the fastest: one that is fast and exceeds little."""
        limits, known = self.search.decision.limits, [c.figures for c in self.compiled.values() if c]
        if self._fastest_that_fits() <= (1 + _NEAR) * min((f.cycles for f in known), default=math.inf):
            return None
        over = [f for f in known if not limits.fits(f)]
        return min(over, key=lambda f: f.cycles * (1 + limits.excess(f)), default=None)

    def _priced(self, charged: Choices) -> list[Extraction]:
        """What greedy extraction finds under other prices, at its own price: from the choices that were compiled before, too, whose memory is known;
        and with views free or copies."""
        known = sorted((c.choice for c in self.compiled.values() if c), key=lambda choice: check(charged.graph, choice))
        greedy = partial(dag_greedy.extract, time_limit=self.search.options.time_limit, restarts=1)
        found = [greedy(charged.graph, starts=known[:_STARTS]).choice]
        if charged.last:
            relaxed = (charged.settled(greedy(charged.relaxed(copied)).choice).choice for copied in (False, True))
            found.append(min(relaxed, key=lambda choice: check(charged.graph, choice)))
        return [self._at_own_price(choice) for choice in found]

    def _at_own_price(self, choice: Mapping[int, int]) -> Extraction:
        cost = check(self.choices.graph, choice)
        return Extraction(dict(choice), cost, -math.inf, "feasible", [], 0.0, f"{_GREEDY} with memory")

    def _relaxed(self, choices: Choices, copied: bool) -> Extraction:
        limit = self.search.options.time_limit
        return choices.settled(extract(choices.relaxed(copied), _GREEDY, time_limit=limit).choice)

    def _again(self, extractor: str, found: Extraction | None) -> Extraction:
        limit = self.search.options.time_limit
        again = extract(self.choices.graph, extractor, time_limit=limit, warm_start=found)
        return checked_extraction(again, self.choices.graph, extractor).unless_interrupted()

    def _rounds(self, extractor: str, extracted: Callable[[Extraction | None], Extraction]) -> Extraction:
        """The last of an extractor's rounds, which go on as long as a new graph's table corrects prices; each starts from the one before."""
        found = None
        for number in range(self.search.options.rounds):
            with self.search.clock.stage("extract"):
                found = extracted(found)
            if not self._compile(found, extractor, number)[1]:
                break
        assert found is not None, "there is at least one round"
        return found

    def _compile(self, found: Extraction, extractor: str, number: int) -> tuple[Compiled | None, bool]:
        """A choice compiled whole, None if Vela refuses it; and whether prices were corrected for it so that the next extraction may differ."""
        written = self.choices.tensor_graph(found.choice)
        buffer = dumps(written[0])
        is_new = buffer not in self.compiled
        if is_new:
            self.compiled[buffer] = self._compiled(written, buffer, found)
        compiled = self.compiled[buffer]
        if compiled is None:
            return compiled, False
        gap = found.gap if math.isfinite(found.gap) else None
        cycles = compiled.estimate.cycles
        logger.info("%s cycles by %s, round %d", f"{cycles:,}", extractor, number, extra={"cycles": cycles})
        self.search.extractions.append(Extracted(extractor, number, float(found.cost), cycles, gap))
        if not is_new:
            return compiled, False
        self.choices, may_differ = corrected(self.choices, written, compiled.estimate.rows)
        return compiled, may_differ

    def _compiled(self, written: Written, buffer: bytes, found: Extraction) -> Compiled | None:
        """None: Vela refuses it."""
        try:
            with self.search.clock.stage("vela"):
                estimate = compile_tosa(buffer, self.search.target, self.search.pool)
        except WorkerError as e:
            self.search.warnings.append(f"a candidate was dropped: {e}")
            return None
        return Compiled(
            "eqsat",
            written[0],
            buffer,
            estimate,
            choices=self.choices,
            choice=found.choice,
            classes=computed_classes(self.choices, *written),
        )


def _rates(over: Figures, limits: MemoryLimits, share: float) -> Rates:
    """By which all of the memory that is allowed would cost `share` times a graph's cycles, of SRAM and flash what the graph has too much of."""
    used = (over.sram, limits.sram), (over.flash, limits.flash)
    return Rates(*(share * over.cycles / max(1, most) if most is not None and n > most else 0.0 for n, most in used))
