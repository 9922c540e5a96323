"""Which of the compiled graphs is the answer, as far as cycles and memory go: the fastest of those that fit.

Limits are bytes of SRAM in use at once, and of commands and weights, which stay in flash (the payload of a .pte). By default they are what
stock's graph needs, so that one graph always fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqsat.search.options import ANY, CYCLES, SRAM, STOCK, Options
from eqsat.vela.compile import Estimate, Footprint

#: By how much flash may grow where it is compared with stock's.
_FLASH = 1.01


class Figures(NamedTuple):
    """What graphs are compared by: Vela's cycles, bytes of SRAM in use at once, bytes of commands and weights."""

    cycles: int
    sram: int
    flash: int

    @staticmethod
    def of(cycles: int, footprint: Footprint) -> Figures:
        return Figures(cycles, footprint.sram, footprint.payload)

    def beats(self, other: Figures) -> bool:
        """Better in one of them and worse in none."""
        return self != other and all(a <= b for a, b in zip(self, other))


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes that an answer may need at most; None: any number."""

    sram: int | None = None
    flash: int | None = None

    @staticmethod
    def of(options: Options, given: Mapping[str, Footprint]) -> MemoryLimits:
        """What the options say, where the given graphs ("stock", "explicit") need what `given` says: "stock" means the explicit graph where
        there is no stock graph, and nothing where Vela refuses both."""
        stock = given.get("stock") or given.get("explicit")
        return MemoryLimits(
            _limit(options.max_sram, stock.sram if stock else None),
            _limit(options.max_flash, int(stock.payload * _FLASH) if stock else None),
        )

    def __str__(self) -> str:
        limits = ((self.sram, "SRAM"), (self.flash, "flash"))
        return " and ".join(f"{n:,} bytes of {what}" for n, what in limits if n is not None) or "any memory"

    def excess(self, figures: Figures) -> float:
        """By which share of the limits a graph exceeds them, 0 where it fits."""
        return sum(
            max(0, used - limit) / max(1, limit)
            for used, limit in ((figures.sram, self.sram), (figures.flash, self.flash))
            if limit is not None
        )

    def fits(self, figures: Figures) -> bool:
        return self.excess(figures) == 0


def _limit(given: int | str, stock: int | None) -> int | None:
    return stock if given == STOCK else None if given == ANY else int(given)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the answer is chosen by: the objective, within the limits. With the objective "sram", an answer may take `cycles` at most, those of
    stock's graph (None: any number)."""

    objective: str = CYCLES
    limits: MemoryLimits = MemoryLimits()
    cycles: int | None = None

    @staticmethod
    def of(options: Options, given: Mapping[str, Estimate]) -> Decision:
        """That of a run; given: what Vela says of stock's and of the explicit graph."""
        stock = given.get("stock") or given.get("explicit")
        limits = MemoryLimits.of(options, {name: e.footprint for name, e in given.items()})
        return Decision(options.objective, limits, stock.cycles if stock and options.objective == SRAM else None)

    def rank(self, figures: Figures) -> tuple[float, int, int]:
        """What graphs are sorted by, the best first: by how much they exceed what they may need, then by the objective."""
        excess = self.limits.excess(figures)
        if self.objective != SRAM:
            return excess, figures.cycles, figures.sram
        if self.cycles is not None:
            excess += max(0, figures.cycles - self.cycles) / max(1, self.cycles)
        return excess, figures.sram, figures.cycles


def front(figures: Sequence[Figures]) -> list[int]:
    """The Pareto set: positions of those that no other one beats, by cycles; the first of equal ones."""
    best = [i for i, f in enumerate(figures) if f not in figures[:i] and not any(other.beats(f) for other in figures)]
    return sorted(best, key=lambda i: figures[i])


def more(new: Figures, old: Figures) -> str:
    """What a graph needs beyond another, for the user: "12,300 cycles fewer for 63.0 KiB more SRAM"."""
    needs = [
        f"{(a - b) / 1024:,.1f} KiB more {what}"
        for what, a, b in (("SRAM", new.sram, old.sram), ("flash", new.flash, old.flash))
        if a > b
    ]
    return f"{old.cycles - new.cycles:,} cycles fewer for {' and '.join(needs)}"
