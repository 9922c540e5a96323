"""Rows in stripes (`stripes.py`), tried on the best graphs that were found where SRAM is what is short: plans are
compiled in the order of what is expected of them, and Vela says what comes of it."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision, Figures
from eqsat.options.effort import EFFORTS
from eqsat.options.options import CYCLES, PARETO, SRAM
from eqsat.search.given_orders import written_anew
from eqsat.search.result import Extracted
from eqsat.search.search import Search
from eqsat.search.setting_rounds import in_best_settings
from eqsat.search.starts import aimed
from eqsat.search.stripes import Plan, Plans
from eqsat.tensor.stripes import striped
from eqsat.tosa.flatbuffer import dumps
from eqsat.verification.checks import Checks

logger = logging.getLogger(__name__)

#: What such graphs are called.
_NAME = "stripes"
#: Plans of one graph are compiled until so many in a row were no better than the best one.
_MISSES = 3


def in_stripes(
    search: Search, candidates: Sequence[Compiled], checks: Checks, decision: Decision, with_settings: bool
) -> list[Compiled]:
    """Graphs with rows in stripes, made of those that are faster than what fits, or exceed the limit least, and of the
    best one where less SRAM is wanted; with_settings: the best of them also in the best of Vela's settings.

    Raises SearchInterrupted.
    """
    most = EFFORTS[search.options.effort].stripes
    plain = [c for c in candidates if not c.settings and not c.tolerant and checks.verified(c) is not False]
    by_tosa, tuned = dict[bytes, Compiled | None](), list[Compiled]()
    for wanted in _wanted(decision, candidates) if most and plain else ():
        best = min(plain, key=lambda c: wanted.rank(c.figures))
        for within, start in aimed(best, plain, wanted):
            if _is_short(start, within):
                better = StripeRounds(search, by_tosa, within, start, most).best_of()
                if with_settings and better.parts_of:
                    tuned.append(in_best_settings(search, within, better))
    return [*filter(None, by_tosa.values()), *(c for c in tuned if c.settings)]


def _wanted(decision: Decision, candidates: Sequence[Compiled]) -> list[Decision]:
    """What graphs with stripes are to be better by: for the Pareto set by SRAM, at no more cycles than stock's graph
    takes, and at any number."""
    if decision.objective != PARETO:
        return [decision]
    less, given = replace(decision, objective=SRAM), {c.name: c for c in candidates}
    before = given.get("stock") or given.get("explicit")
    anyhow = replace(less, vela_total=None)
    return [replace(less, cycles=before.figures.cycles), anyhow] if before else [anyhow]


def _is_short(start: Compiled, decision: Decision) -> bool:
    """Whether less SRAM would make a graph better."""
    limit = decision.limits.sram
    return decision.objective != CYCLES or limit is not None and start.figures.sram > limit


@dataclass(slots=True)
class _Learnt:
    """How what Vela made of the last plan for a graph compares with what was expected of it.

    start: of the graph. cycles: how many times as many more it took; sram: how many times as many bytes.
    """

    start: Figures
    cycles: float = 1.0
    sram: float = 1.0

    def of(self, expected: Figures) -> Figures:
        """What is expected by now."""
        more = int((self.cycles - 1) * (expected.cycles - self.start.cycles))
        return expected._replace(
            cycles=expected.cycles + more, sram=int(self.sram * expected.sram), vela_total=expected.vela_total + more
        )

    def learn(self, expected: Figures, figures: Figures) -> None:
        self.cycles = max(0, figures.cycles - self.start.cycles) / max(1, expected.cycles - self.start.cycles)
        self.sram = figures.sram / max(1, expected.sram)


class StripeRounds:
    """Goes on from one graph, and adds to `by_tosa` each graph with stripes that it compiles."""

    def __init__(
        self, search: Search, by_tosa: dict[bytes, Compiled | None], decision: Decision, start: Compiled, most: int
    ) -> None:
        """most: graphs that are looked at, at most. Raises WorkerError."""
        self._search, self._by_tosa, self._decision, self._left = search, by_tosa, decision, most
        self._start, self._locations = start, dict[int, str]()
        if start.choices is None:
            self._start, self._locations = written_anew(search, start)

    def best_of(self) -> Compiled:
        """The graph with stripes, one region after the other as long as that makes it better, or as it was."""
        best = self._start
        while self._left and (better := self._better(best)) is not None:
            best = better
        return best

    def _better(self, start: Compiled) -> Compiled | None:
        """A graph with one region in stripes that is better than without; None where none of those is that seem to
        be."""
        plans, learnt, misses, best = list(Plans(start)), _Learnt(start.figures), 0, start
        while plans and self._left and misses < _MISSES:
            plan = min(plans, key=lambda p: self._decision.rank(learnt.of(p.expected)))
            if self._decision.rank(learnt.of(plan.expected)) >= self._rank(best):
                break
            plans.remove(plan)
            tried = self._compiled(start, plan)
            if tried is not None:
                learnt.learn(plan.expected, tried.figures)
            misses += 1
            if tried is not None and self._rank(tried) < self._rank(best):
                best, misses = tried, 0
        return None if best is start else best

    def _rank(self, c: Compiled) -> tuple[float, bool, int, int]:
        return self._decision.rank(c.figures)

    def _compiled(self, start: Compiled, plan: Plan) -> Compiled | None:
        """None: Vela refuses it."""
        self._left -= 1
        graph, source = striped(start.graph, plan.region, plan.parts)
        parts_of = {n: start.parts_of.get(k, k) for n, k in source.items()}
        buffer = dumps(graph, {n: self._locations[k] for n, k in parts_of.items() if k in self._locations})
        if buffer not in self._by_tosa:
            self._search.interruption.check()
            whole = {k: n for n, k in source.items() if graph.type(n) == start.graph.type(k)}
            classes = {whole[k]: c for k, c in start.classes.items() if k in whole}
            divided = replace(start, graph=graph, tosa=buffer, classes=classes, parts_of=parts_of)
            self._by_tosa[buffer] = self._estimated(divided, plan.expected)
        return self._by_tosa[buffer]

    def _estimated(self, divided: Compiled, expected: Figures) -> Compiled | None:
        """A graph with the estimate of its own."""
        search = self._search
        found = search.compiled(divided.tosa)
        if found is None:
            return None
        estimate, judged = found
        logger.info("%s cycles by %s", f"{estimate.corrected:,}", _NAME, extra={"cycles": estimate.corrected})
        search.extractions.append(Extracted(_NAME, 0, float(expected.cycles), estimate.corrected, None))
        return replace(divided, estimate=estimate, judged=judged)
