"""The settings of Vela that an expert would try by hand on a graph that is not eqsat's."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.ground.process import WorkerError
from eqsat.search.figures import count_cycles
from eqsat.search.proposals.settings import arena_sizes, may_choose
from eqsat.target import Target
from eqsat.vela.compile import Estimate


def in_best_settings(target: Target, compiled: Callable[[Target], Estimate]) -> tuple[Estimate, tuple[str, ...]]:
    """Returns the estimate in the best settings of Vela, and these settings.

    The best is first by calibrated cycles, then by SRAM, and needs no more SRAM than without settings.
    Sizes of the arena are tried by halving, then the objective of size. Raises what `compiled` raises without settings.
    compiled: returns the estimate for a target.
    """
    first = best = compiled(target)
    settings: tuple[str, ...] = ()

    def rank(estimate: Estimate) -> tuple[int, int]:
        return count_cycles(estimate, target), estimate.sram_peak

    def try_setting(setting: str) -> bool:
        """Compiles with a setting, and keeps it if it is no worse; returns whether it does."""
        nonlocal best, settings
        if not may_choose(setting, target):
            return False
        try:
            found = compiled(target.with_flags((setting,)))
        except WorkerError:
            return False
        same = found.stream and found.stream == first.stream  # it only looks cheaper, if at all
        if same or found.sram_peak > first.sram_peak or rank(found) > rank(best):
            return False
        best, settings = found, (setting,)
        return True

    sizes = arena_sizes(first)
    while sizes:
        middle = len(sizes) // 2
        smaller = try_setting(f"--arena-cache-size={sizes[middle]}")
        sizes = sizes[:middle] if smaller else sizes[middle + 1 :]
    try_setting("--optimise=Size")
    return best, settings
