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
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import cost_models
from cost_models.cache import PriceCache
from cost_models.protocol import CostModel
from eqsat.egraph.encoding import Frozen
from eqsat.search.choice import Choices, build
from eqsat.search.clock import Clock
from eqsat.search.correction import corrected
from eqsat.search.decision import Decision, Figures, MemoryLimits
from eqsat.search.memory import MemoryPrices
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
from extraction import Extraction, Infeasible, check, extract

logger = logging.getLogger(__name__)

_GREEDY = "dag_greedy"
#: Rounds that look for graphs that fit; what the memory which is too much costs in the first, as a share of the fastest graph's cycles; and by
#: what that rises or falls until one round finds a graph that fits and another does not.
_ROUNDS, _FIRST, _FACTOR = 6, 0.5, 6.0
#: No such rounds where a graph that fits is slower by this share at most.
_NEAR = 0.01
#: For less SRAM each round aims at this share of the least so far; rounds at most.
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
        """Looks for a graph within the limits that is about as fast as the fastest."""
        limits, learnt = self.search.decision.limits, set[bytes]()
        low, high, share = 0.0, math.inf, _FIRST  # the largest share that did not do, the smallest that did
        for number in range(_ROUNDS):
            over = self._over()
            if over is None:
                return
            self._learn(prices, limits, learnt)
            found, corrected_prices = self._priced_round(prices, over.figures, limits, share, number)
            if found and limits.fits(found.figures):
                high = share
            elif corrected_prices:
                continue  # they may have been too low for what was found
            else:
                low = share
            share = _FACTOR * low if math.isinf(high) else math.sqrt(low * high) if low else high / _FACTOR

    def _shrink(self, prices: MemoryPrices) -> None:
        """Looks for graphs that need less SRAM than the best so far, a step at a time, until prices that make SRAM all that counts find none."""
        decision, best, learnt = replace(self.search.decision, objective=SRAM), None, set[bytes]()
        shares: list[float] = []
        for number in range(_ROUNDS, _ROUNDS + _MOST):
            least = min((c for c in self.compiled.values() if c), key=lambda c: decision.rank(c.figures), default=None)
            if least is None or least is best and not shares:
                return
            if least is not best:
                best, shares = least, [1.0, 25.0]
                learnt.clear()
            target = replace(decision.limits, sram=int(_STEP * best.figures.sram))
            self._learn(prices, target, learnt)
            self._priced_round(prices, best.figures, target, shares.pop(0), number)

    def _learn(self, prices: MemoryPrices, limits: MemoryLimits, learnt: set[bytes]) -> None:
        """From the graphs that are not among those of `learnt`, which is filled up."""
        for c in (c for tosa, c in self.compiled.items() if c and tosa not in learnt):
            prices.learn(self.choices, self.choices.tensor_graph(c.choice), c.estimate, limits)
        learnt.update(self.compiled)

    def _priced_round(
        self, prices: MemoryPrices, over: Figures, limits: MemoryLimits, share: float, number: int
    ) -> tuple[Compiled | None, bool]:
        """One extraction with prices by which what is too much in the graph `over` would cost that share of its cycles, as `_compile`."""
        rates = [
            share * over.cycles / (used - limit) if limit is not None and used > limit else 0.0
            for used, limit in ((over.sram, limits.sram), (over.flash, limits.flash))
        ]
        with self.search.clock.stage("extract"):
            found = self._priced(prices.charged(self.choices, *rates))
        return self._compile(found, f"{_GREEDY} with memory", number)

    def _over(self) -> Compiled | None:
        """What a graph that fits is looked for from, if none that fits is about as fast as the fastest: one that is fast and exceeds little."""
        limits, known = self.search.decision.limits, [c for c in self.compiled.values() if c]
        fitting = [c.estimate.cycles for c in known if limits.fits(c.figures)]
        fastest = min((c.estimate.cycles for c in known), default=math.inf)
        if min(fitting, default=math.inf) <= (1 + _NEAR) * fastest:
            return None
        over = [c for c in known if not limits.fits(c.figures)]
        return min(over, key=lambda c: c.estimate.cycles * (1 + limits.excess(c.figures)), default=None)

    def _priced(self, charged: Choices) -> Extraction:
        """The cheapest that greedy extraction finds under other prices, at its own."""
        limit = self.search.options.time_limit
        found = [extract(charged.graph, _GREEDY, time_limit=limit).choice]
        if charged.last:
            found += [self._relaxed(charged, copied).choice for copied in (False, True)]
        choice = min(found, key=lambda choice: check(charged.graph, choice))
        return Extraction(
            choice, check(self.choices.graph, choice), -math.inf, "feasible", [], 0.0, f"{_GREEDY} with memory"
        )

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
