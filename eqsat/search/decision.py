"""Which of the compiled graphs is the answer, as far as cycles and memory go: the fastest of those that fit.

Limits are bytes of SRAM in use at once, and of commands and weights, which stay in flash. By default no more SRAM than stock's graph needs is
allowed, and so much flash that the .pte is at most 1% larger than stock's. So one graph always fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from eqsat.search.options import ANY, CYCLES, SRAM, STOCK, Options
from eqsat.vela.compile import Footprint

#: By which share a .pte may grow where it is compared with stock's.
_GROWTH = 0.01


class Container(NamedTuple):
    """What a .pte has besides the commands and weights of a delegate: bytes, at least; and by how many more bytes than these the file may grow
    when they do, since what follows them begins at a multiple of 128 bytes.

    Source: executorch 1.5, exir/_serialize/_program.py. A program with nothing but a call of a delegate takes 1,888 bytes on U85 and 2,000 on U55 and
    U65; with a float input and output 2,512 and 2,640.
    """

    fixed: int
    padding: int = 0


#: Around the only delegate of a .pte, and around one of several, which share what is fixed.
ALONE, ONE_OF_SEVERAL = Container(1792), Container(0, 127)


class Figures(NamedTuple):
    """What graphs are compared by: cycles by the referee, bytes of SRAM in use at once, bytes of commands and weights."""

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
    def of(options: Options, given: Mapping[str, Footprint], container: Container = ALONE) -> MemoryLimits:
        """What the options say, where the given graphs ("stock", "explicit") need what `given` says and `container` is around them: "stock" means
        the explicit graph where there is no stock graph, and nothing where Vela refuses both."""
        stock = given.get("stock") or given.get("explicit")
        return MemoryLimits(
            _limit(options.max_sram, stock.sram if stock else None),
            _limit(options.max_flash, stock.payload + _growth(stock.payload, container) if stock else None),
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


def _growth(payload: int, container: Container) -> int:
    """Bytes by which the payload may grow so that the .pte grows by 1% at most."""
    return max(0, int(_GROWTH * (payload + container.fixed)) - container.padding)


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
    def of(
        options: Options, footprints: Mapping[str, Footprint], cycles: Mapping[str, int], container: Container = ALONE
    ) -> Decision:
        """That of a run; footprints, cycles: of stock's and of the explicit graph, as far as Vela takes them."""
        most = cycles.get("stock", cycles.get("explicit")) if options.objective == SRAM else None
        return Decision(options.objective, MemoryLimits.of(options, footprints, container), most)

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
