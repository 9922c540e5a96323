"""Rounds that compute rows in stripes (`stripes.py`), tried on the best graphs if SRAM is short.

Plans are compiled in the order of their expected figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from eqsat.choice.compiled import Compiled
from eqsat.options.decision import Decision, Figures
from eqsat.options.effort import EFFORTS
from eqsat.options.options import CYCLES, PARETO, SRAM
from eqsat.search.search import Search
from eqsat.search.setting_rounds import in_best_settings
from eqsat.search.starts import Successors, aimed, written_anew
from eqsat.search.stripes import Plan, Plans
from eqsat.tensor.stripes import striped
from eqsat.tosa.flatbuffer import dumps
from eqsat.verification.checks import Checks

#: The extractor's name in logs and records.
_NAME = "stripes"
#: Plans in a row that are no better than the best one, after which no more are compiled.
_MISSES = 3


def in_stripes(search: Search, candidates: Sequence[Compiled], checks: Checks, decision: Decision) -> list[Compiled]:
    """Returns graphs with rows in stripes.

    They are made of the best graph, of the fastest one beyond the limits, and of a fast one with little excess.
    Only graphs that less SRAM would make better are tried.
    The best of them are also compiled in the best settings of Vela, if the answer may have some.
    Raises SearchInterrupted.
    """
    most = EFFORTS[search.options.effort].stripes
    plain = [c for c in candidates if not c.settings and checks.verified(c) is not False]
    by_tosa, tuned = dict[bytes, Compiled | None](), list[Compiled]()
    for wanted in _wanted(decision, candidates) if most and plain else ():
        best = min(plain, key=lambda c: wanted.rank(c.figures))
        for within, start in aimed(best, plain, wanted):
            if _is_short(start, within):
                answer = min(plain, key=lambda c: within.rank(c.figures)).figures
                better = StripeRounds(search, by_tosa, within, answer, start, most).best_of()
                if search.with_settings and better.parts_of:
                    tuned.append(in_best_settings(search, within, better))
    return [*filter(None, by_tosa.values()), *(c for c in tuned if c.settings)]


def _wanted(decision: Decision, candidates: Sequence[Compiled]) -> list[Decision]:
    """Returns the decisions by which graphs with stripes have to be better.

    For the Pareto set these are less SRAM at no more cycles than stock's graph, and at any cycles.
    """
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
    """The ratios of Vela's figures of the last plan for a graph to the expected ones.

    start: figures of the graph.
    cycles, flash: ratios of what is added.
    sram: ratio of the bytes of SRAM.
    """

    start: Figures
    cycles: float = 1.0
    flash: float = 1.0
    sram: float = 1.0

    def of(self, expected: Figures) -> Figures:
        """Returns expected figures, corrected by the ratios."""
        more = int((self.cycles - 1) * (expected.cycles - self.start.cycles))
        flash = int((self.flash - 1) * (expected.flash - self.start.flash))
        return Figures(
            expected.cycles + more, int(self.sram * expected.sram), expected.flash + flash, expected.vela_total + more
        )

    def learn(self, expected: Figures, figures: Figures) -> None:
        self.cycles = max(0, figures.cycles - self.start.cycles) / max(1, expected.cycles - self.start.cycles)
        self.flash = max(0, figures.flash - self.start.flash) / max(1, expected.flash - self.start.flash)
        self.sram = figures.sram / max(1, expected.sram)


class StripeRounds:
    """Rounds from one graph, which add each compiled graph with stripes to `by_tosa`."""

    def __init__(
        self,
        search: Search,
        by_tosa: dict[bytes, Compiled | None],
        decision: Decision,
        answer: Figures,
        start: Compiled,
        most: int,
    ) -> None:
        """answer: figures of the best graph so far; plans that take too many cycles to beat it are left out.

        most: the most graphs that are compiled.
        Raises WorkerError.
        """
        self._successors, self._decision, self._left = Successors(search, by_tosa, _NAME), decision, most
        self._answer = answer
        self._ahead = search.pool.size
        self._start, self._locations = start, dict[int, str]()
        if start.choices is None:
            self._start, self._locations = written_anew(search, start)

    def best_of(self) -> Compiled:
        """Returns the best graph with stripes, or the start.

        Regions are added one by one, as long as that makes the graph better.
        """
        best = Plans(self._start, self._decision.limits.sram)
        while self._left and (better := self._better(best)) is not None:
            best = better
        return best.start

    def _better(self, first: Plans) -> Plans | None:
        """Returns the plans for a better graph with one more region in stripes, None if no plan gives one.

        While a plan is compiled, the next ones are begun.
        """
        start = first.start
        plans, learnt, misses = list(first), _Learnt(start.figures), 0
        best, least = first, self._rank(start.figures, first.excess)
        begun: dict[Plan, Compiled] = {}
        while plans and self._left and misses < _MISSES:
            able = [p for p in plans if self._decision.may_beat(learnt.of(p.expected), self._answer)]
            ranked = sorted(able, key=lambda p: self._rank(learnt.of(p.expected), p.excess))
            if not ranked or self._rank(learnt.of((plan := ranked[0]).expected), plan.excess) >= least:
                break
            for p in ranked[: min(self._ahead, self._left)]:
                if p not in begun:
                    begun[p] = self._begun(start, p)
            plans.remove(plan)
            misses += 1
            self._left -= 1
            tried = self._successors.compiled(begun[plan], plan.expected.cycles)
            if tried is not None:
                learnt.learn(plan.expected, tried.figures)
                found = Plans(tried, self._decision.limits.sram)
                rank = self._rank(tried.figures, found.excess)
                if rank < least and self._decision.may_beat(tried.figures, self._answer):
                    best, least, misses = found, rank, 0
        return None if best is first else best

    def _rank(self, figures: Figures, excess: float) -> tuple[float, ...]:
        """Returns the key by which graphs are sorted: as answers, but of equal peaks the one with less excess first."""
        beyond, is_dearer, *others = self._decision.rank(figures)
        return beyond, excess, is_dearer, *others

    def _begun(self, start: Compiled, plan: Plan) -> Compiled:
        """Starts to compile the graph of a plan, and returns it with the estimate of the start."""
        graph, source = striped(start.graph, plan.region, plan.parts)
        parts_of = {n: start.parts_of.get(k, k) for n, k in source.items()}
        buffer = dumps(graph, {n: self._locations[k] for n, k in parts_of.items() if k in self._locations})
        return self._successors.begin(replace(start, graph=graph, tosa=buffer, parts_of=parts_of))
