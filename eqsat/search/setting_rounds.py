"""Rounds that try settings of Vela on the best graphs found: size of the arena, and objective.

Without a target for the arena Vela keeps whole tensors in SRAM (`Sram_Only`, `Shared_Sram`).
If the target is below the graph's peak, it cascades operators, a few rows at a time.
That often takes equal cycles.
Source: ethos-u-vela 5.2.0, OPTIONS.md and regor's cascade_builder.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from eqsat.choice.compiled import Compiled
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision
from eqsat.options.effort import EFFORTS
from eqsat.options.options import Options
from eqsat.search.search import Search
from eqsat.search.starts import aimed, successor
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.vela.compile import Estimate
from eqsat.vela.occupancy import in_use, occupied
from eqsat.verification.checks import Answer, Checks

#: Names of Vela's options.
_ARENA, _OPTIMISE = "--arena-cache-size", "--optimise"
_SIZE = f"{_OPTIMISE}=Size"
#: The extractor's name in logs and records.
_NAME = "settings"
#: Settings that an expert would try by hand on stock's graph, at most.
_BY_HAND = 20


def may_choose(setting: str, target: Target) -> bool:
    """Whether a setting is one that a search may choose and that the user has not set."""
    option = setting.partition("=")[0]
    return not target.sets(option) and (setting == _SIZE or bool(re.fullmatch(f"{_ARENA}=[0-9]+", setting, re.ASCII)))


def in_other_settings(
    search: Search, answer: Answer, candidates: Sequence[Compiled], checks: Checks, decision: Decision
) -> list[Compiled]:
    """Returns the graphs that are better than the answer with settings of Vela.

    They are made of the answer's graph, and of faster ones that need too much memory.
    Only settings that the user has not set are tried.
    If the limits allow more memory than the default ones, the answer within these is a start, too.
    So a search with more memory finds all that one with less memory does.
    Raises SearchInterrupted.
    """
    right = [c for c in candidates if checks.verified(c) is not False]
    found = [in_best_settings(search, within, start) for within, start in aimed(answer.best, right, decision)]
    return [c for c in found if decision.rank(c.figures) < decision.rank(answer.best.figures)]


def begin_settings(search: Search, candidates: Sequence[Compiled], decision: Decision) -> None:
    """Starts to compile the best candidate in the settings that are tried first, if it proves to be the answer."""
    if candidates:
        best = min(candidates, key=lambda c: decision.rank(c.figures))
        within, start = next(aimed(best, candidates, decision))
        _Settings(search, within, start).begin()


def in_best_settings(search: Search, decision: Decision, start: Compiled) -> Compiled:
    """Returns a graph in the best of the settings tried on it, or as it was."""
    return _Settings(search, decision, start).best_of()


def tuned(stock: bytes, target: Target, estimate: Estimate, pool: Pool) -> tuple[Estimate, tuple[str, ...]]:
    """Returns the estimate of stock's graph at its best settings of Vela, and these settings.

    estimate: Vela's estimate without them.
    The best takes the fewest cycles with no more SRAM, as an expert would find by hand.
    """
    search = Search(target, pool, Options())
    start = Compiled("stock", loads(stock), stock, estimate)
    decision = Decision.of(search.options, {"stock": estimate.footprint}, {"stock": start.figures})
    best = _Settings(search, decision, start, _BY_HAND).best_of()
    return best.estimate, best.settings


class _Settings:
    """The search for settings in which one graph is better.

    A limit of SRAM comes first, then sizes of the arena by halving, and `_SIZE` at last.
    most: how many settings are tried; None: as many as the effort says.
    """

    def __init__(self, search: Search, decision: Decision, start: Compiled, most: int | None = None) -> None:
        self._search, self._decision, self._start, self.best = search, decision, start, start
        self._left = EFFORTS[search.options.effort].settings if most is None else most
        self._first, self._sizes, self._last = list[str](), list[int](), list[str]()
        target, limit, figures = search.target, decision.limits.sram, start.figures
        if not self._left:
            return
        if not target.sets(_ARENA):
            self._sizes = arena_sizes(start.estimate)
            if limit is not None and limit < figures.sram:
                self._first, self._sizes = [f"{_ARENA}={limit}"], [size for size in self._sizes if size < limit]
        if not target.sets(_OPTIMISE) and figures.sram:
            self._last = [_SIZE]

    def best_of(self) -> Compiled:
        self.begin()
        for setting in self._first:
            self._is_no_worse(setting)
        smaller, middle, larger = _halved(self._sizes)
        while middle and self._left:
            if self._left > 1:  # a smaller arena often takes more cycles
                self._begin(*_halved(larger)[1])
            smaller, middle, larger = _halved(smaller if self._is_no_worse(*middle) else larger)
        for setting in self._last:
            self._is_no_worse(setting)
        return self.best

    def begin(self) -> None:
        """Starts to compile the graph in the settings that are tried in any case."""
        self._begin(*self._first, *_halved(self._sizes)[1], *self._last)

    def _begin(self, *settings: str) -> None:
        """Starts to compile the graph with settings that will be tried, or are likely to be."""
        for setting in settings:
            self._search.begin(self._start.tosa, (setting,))

    def _is_no_worse(self, setting: str) -> bool:
        """Whether the graph with a setting is no worse than the best so far, which it then replaces."""
        self._left -= 1
        start = self._start
        given = start.given or (start.name if start.choices is None else "")
        changed = replace(start, name="eqsat", given=given, settings=(setting,))
        found = successor(self._search, changed, _NAME, start.figures.cycles)
        if found is None or self._decision.rank(found.figures) > self._decision.rank(self.best.figures):
            return False
        self.best = found
        return True


def _halved(sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[str], Sequence[int]]:
    """Returns the smaller sizes of an arena, the setting of the one in the middle if any, and the larger sizes."""
    middle = len(sizes) // 2
    return sizes[:middle], [f"{_ARENA}={size}" for size in sizes[middle : middle + 1]], sizes[middle + 1 :]


def arena_sizes(estimate: Estimate) -> list[int]:
    """Returns the bytes that are in use at the steps of a graph, sorted, if below its peak.

    These are the arena sizes at which cascades begin to pay.
    """
    in_sram = in_use(estimate.tensors, occupied(estimate.tensors))
    return sorted({n for n in in_sram.tolist() if 0 < n < estimate.sram_peak})
