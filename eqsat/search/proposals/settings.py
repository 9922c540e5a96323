"""Settings of Vela: size of the arena, and objective.

Without a target for the arena Vela keeps whole tensors in SRAM (`Sram_Only`, `Shared_Sram`).
If the target is below the graph's peak, it cascades operators, a few rows at a time, often in equal cycles.
Source: ethos-u-vela 5.2.0, OPTIONS.md and regor's cascade_builder.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from eqsat.search.proposal import Ask, Asking, State
from eqsat.target import Target
from eqsat.vela.compile import Estimate
from eqsat.vela.table import get_occupied, in_use

#: Names of Vela's options.
_ARENA, _OPTIMISE = "--arena-cache-size", "--optimise"
_SIZE = f"{_OPTIMISE}=Size"


def may_choose(setting: str, target: Target) -> bool:
    """Whether a setting is one that a search may choose and that the user has not set."""
    option = setting.partition("=")[0]
    return not target.sets(option) and (setting == _SIZE or bool(re.fullmatch(f"{_ARENA}=[0-9]+", setting, re.ASCII)))


def settings(state: State) -> Asking:
    """Asks for `_SIZE` and a limit of SRAM first, and then for sizes of the arena by halving."""
    start, target, limit = state.origin, state.target, state.decision.limits.sram
    rank, least = state.decision.rank_of, state.decision.rank_of(start)
    first, sizes = list[str](), list[int]()
    if not target.sets(_ARENA):
        sizes = arena_sizes(start.estimate)
        if limit is not None and limit < start.figures.sram:
            first, sizes = [f"{_ARENA}={limit}"], [size for size in sizes if size < limit]
    whole = [] if target.sets(_OPTIMISE) or not start.figures.sram else [_SIZE]
    smaller, middle, larger = _halve(sizes)
    if first or whole:
        likely = (start.with_setting(s, "settings") for s in middle)
        state = yield Ask([start.with_setting(s, "settings") for s in first + whole], likely)
        least = min([least, *(rank(c) for c in state.results[: len(first)] if c)])
    while middle:
        # a smaller arena often takes more cycles
        likely = (start.with_setting(s, "settings") for s in _halve(larger)[1])
        state = yield Ask([start.with_setting(s, "settings") for s in middle], likely)
        (found,) = state.results
        is_no_worse = found is not None and rank(found) <= least
        least = rank(found) if found and is_no_worse else least
        smaller, middle, larger = _halve(smaller if is_no_worse else larger)


def _halve(sizes: Sequence[int]) -> tuple[Sequence[int], Sequence[str], Sequence[int]]:
    """Returns the smaller sizes of an arena, the setting of the one in the middle if any, and the larger sizes."""
    middle = len(sizes) // 2
    return sizes[:middle], [f"{_ARENA}={size}" for size in sizes[middle : middle + 1]], sizes[middle + 1 :]


def arena_sizes(estimate: Estimate) -> list[int]:
    """Returns the bytes in use at the steps of a graph, sorted, if below its peak: arenas for which cascades pay."""
    in_sram = in_use(estimate.tensors, get_occupied(estimate.tensors))
    return sorted({n for n in in_sram.tolist() if 0 < n < estimate.sram_peak})
