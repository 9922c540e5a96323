"""The choice of the result from the compiled graphs, by cycles and memory.

It is the fastest of the graphs that fit, by calibrated cycles, and so never dearer than stock's graph.
By Vela's own total it may be dearer, but at most by what the price may be off by (`cost_models.calibration.get_spread`)
and by as much as it is cheaper by calibrated cycles: a gain of one cycle does not stand against a loss of a tenth.

Limits are bytes of SRAM in use at once, and of commands and weights, which stay in flash (see `Options`).
Stock's graph meets the default limits, so one graph always fits them.
Where none fits the limits that a user sets, the default ones decide, and the user is told what the nearest graph takes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from eqsat.options.options import CYCLES, SRAM, SRAM_FLOOR, STOCK, Growth, Options, parse
from eqsat.vela.compile import Footprint


class Container(NamedTuple):
    """The part of a .pte around a delegate's commands and weights, and what shares its SRAM.

    fixed: bytes that a .pte has besides commands and weights, at least.
    padding: most bytes that alignment to 128 adds when commands and weights grow.
    share: this delegate's share of the bytes by which the file may grow.
    arena: bytes of SRAM of the largest of stock's earlier delegates in the same method.
    They run one after the other in one memory, which runtime/executor/method.cpp of executorch 1.5 empties after each.

    A program of one delegate call takes 1,888 bytes on U85 and 2,000 on U55 and U65, more with a float input
    (exir/_serialize/_program.py).
    """

    fixed: int
    padding: int = 0
    share: float = 1.0
    arena: int = 0

    @staticmethod
    def of(delegates: int | None, arena: int = 0) -> Container:
        """Returns the container of one of so many delegates of a .pte (None: unknown), which share the fixed bytes."""
        if delegates == 1:
            return ALONE
        return Container(0, 127, 1 / delegates if delegates else 0.0, arena)


#: The container of the only delegate of a .pte.
ALONE = Container(1792)
#: The container for limits of SRAM, around which there is nothing.
_NOTHING = Container(0)


class Figures(NamedTuple):
    """The figures by which graphs are compared.

    cycles: calibrated. sram: bytes in use at once. flash: bytes of commands and weights.
    vela_total: cycles by Vela's own total, which only decides whether a graph is dearer than stock's.
    """

    cycles: int
    sram: int
    flash: int
    vela_total: int = 0

    @staticmethod
    def of(cycles: int, footprint: Footprint, vela_total: int) -> Figures:
        return Figures(cycles, footprint.sram, footprint.payload, vela_total)

    @property
    def costs(self) -> tuple[int, int, int]:
        """The figures of which less is better: cycles, SRAM and flash, without Vela's own total."""
        return self.cycles, self.sram, self.flash

    def beats(self, other: Figures) -> bool:
        """Whether this is better in one of its costs and worse in none."""
        return self.costs != other.costs and all(a <= b for a, b in zip(self.costs, other.costs))


class Measured(Protocol):
    """What has figures and a number of operators: a compiled graph."""

    @property
    def figures(self) -> Figures: ...

    @property
    def operators(self) -> int: ...


#: Share of the cycles that each percent of flash beyond the limit has to save.
_PERCENT_BUYS = 0.02


class Earned(NamedTuple):
    """Flash beyond the limit: most bytes of commands and weights in all, and the bytes of 1% of stock's .pte."""

    most: int
    percent: float


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes that a result may need at most; None: any number.

    earned: the flash beyond `flash` that it may need if its cycles pay for it.
    """

    sram: int | None = None
    flash: int | None = None
    earned: Earned | None = None

    @staticmethod
    def of(options: Options, stock: Figures | None, container: Container = ALONE, dedicated: int = 0) -> MemoryLimits:
        """Returns the limits that the options set.

        stock: of stock's graph, or of the explicit one; without either, limits relative to it are None.
        dedicated: bytes of SRAM that the NPU has to itself, which the limit "stock" allows, as SRAM_FLOOR.
        """
        before = max(stock.sram, container.arena) if stock else None
        sram = _bytes(parse(options.max_sram, "max_sram"), before, _NOTHING)
        growth, payload = parse(options.max_flash, "max_flash"), stock.flash if stock else None
        flash, earned = _bytes(growth, payload, container), None
        if isinstance(growth, Growth) and growth.earned and payload is not None and options.objective != SRAM:
            most = _bytes(Growth(growth.earned), payload, container)
            if most is not None and flash is not None and most > flash:
                earned = Earned(most, (payload + container.fixed) / 100)
        if sram is not None and options.max_sram == STOCK:
            sram = max(sram, dedicated, SRAM_FLOOR)
        return MemoryLimits(sram, flash, earned)

    @property
    def widest(self) -> MemoryLimits:
        """The limits with all the flash that may be earned."""
        return replace(self, flash=self.earned.most, earned=None) if self.earned else self

    def __str__(self) -> str:
        limits = ((self.sram, "SRAM"), (self.flash, "flash"))
        return " and ".join(f"{n:,} bytes of {what}" for n, what in limits if n is not None) or "any memory"

    def and_of(self, other: MemoryLimits) -> MemoryLimits:
        """Returns the tighter of two limits, memory by memory."""
        flash, most = _tighter(self.flash, other.flash), _tighter(self.widest.flash, other.widest.flash)
        percent = next((limits.earned.percent for limits in (self, other) if limits.earned), None)
        earned = Earned(most, percent) if percent and most is not None and flash is not None and most > flash else None
        return MemoryLimits(_tighter(self.sram, other.sram), flash, earned)

    def excess(self, figures: Figures) -> float:
        """Returns by which share of the limits a graph exceeds them, 0 if it fits."""
        return sum(
            max(0, used - limit) / max(1, limit)
            for used, limit in ((figures.sram, self.sram), (figures.flash, self.flash))
            if limit is not None
        )

    def fits(self, figures: Figures) -> bool:
        return self.excess(figures) == 0

    def price(self, figures: Figures) -> int:
        """Returns the cycles, increased by what flash beyond the limit has to save."""
        if self.earned is None or self.flash is None or figures.flash <= self.flash:
            return figures.cycles
        percents = (figures.flash - self.flash) / self.earned.percent
        return math.ceil(figures.cycles * (1 + _PERCENT_BUYS * percents))


def _tighter(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)


def _bytes(limit: int | Growth | None, stock: int | None, container: Container) -> int | None:
    """Returns a limit in bytes, None if there is none, from the bytes of stock's graph and their container."""
    if not isinstance(limit, Growth):
        return limit
    if stock is None:
        return None
    share = limit.share * (stock + container.fixed)
    if share < 0:
        return max(0, stock + math.floor(share) - container.padding)
    return stock + max(0, int(max(share, limit.bytes * container.share)) - container.padding)


@dataclass(frozen=True, slots=True)
class Decision:
    """The rule by which the result is chosen: the objective, within the limits. None is no limit.

    cycles: the limit with the objective "sram": the cycles of stock's graph.
    vela_total: the limit by Vela's own total.
    product: the limit of calibrated cycles times cycles by Vela's own total: that of stock's graph.
    default: the limits without the user's options, which stock's graph meets.
    """

    objective: str = CYCLES
    limits: MemoryLimits = MemoryLimits()
    cycles: int | None = None
    vela_total: int | None = None
    product: int | None = None
    default: MemoryLimits = MemoryLimits()

    @property
    def aims(self) -> list[Decision]:
        """This decision; before it the same within the default limits, if its own allow more.

        So a search with more memory finds all that one with less memory does.
        """
        within = self.limits.and_of(self.default)
        return [self] if within == self.limits else [replace(self, limits=within), self]

    @property
    def wider_aims(self) -> list[Decision]:
        """`aims`, each followed by the same with the flash that may be earned."""
        return list(dict.fromkeys(d for aim in self.aims for d in (aim, replace(aim, limits=aim.limits.widest))))

    @staticmethod
    def of(
        options: Options,
        stock: Figures | None,
        container: Container = ALONE,
        dedicated: int = 0,
        allowance: float = 0.0,
    ) -> Decision:
        """Returns the decision of a run; stock, dedicated: as in `MemoryLimits.of`.

        allowance: the share of stock's cycles by Vela's own total by which a result may exceed them.
        """
        return Decision(
            options.objective,
            MemoryLimits.of(options, stock, container, dedicated),
            stock.cycles if stock and options.objective == SRAM else None,
            math.floor(stock.vela_total * (1 + allowance)) if stock else None,
            stock.cycles * stock.vela_total if stock and options.objective != SRAM else None,
            MemoryLimits.of(replace(options, max_sram=STOCK, max_flash=STOCK), stock, container, dedicated),
        )

    def may_beat(self, figures: Figures, best: Figures) -> bool:
        """Whether a graph would be better than the best one with as many cycles and no memory at all."""
        return self.rank(figures._replace(sram=0, flash=0)) < self.rank(best)

    def rank_of(self, graph: Measured) -> tuple[float, bool, int, int, int]:
        """Returns the key by which compiled graphs are sorted, the best first: `rank`, then the number of operators."""
        return *self.rank(graph.figures), graph.operators

    def rank(self, figures: Figures) -> tuple[float, bool, int, int]:
        """Returns the key by which graphs are sorted, the best first.

        It is the excess over the limits, whether Vela's total is too high, and cycles and SRAM, the objective first.
        """
        excess = self.limits.widest.excess(figures)
        above = self.vela_total is not None and figures.vela_total > self.vela_total
        dearer = above or self.product is not None and figures.cycles * figures.vela_total > self.product
        if self.objective != SRAM:
            return excess, dearer, self.limits.price(figures), figures.sram
        if self.cycles is not None:
            excess += max(0, figures.cycles - self.cycles) / max(1, self.cycles)
        return excess, dearer, figures.sram, figures.cycles


def front(figures: Sequence[Figures]) -> list[int]:
    """Returns the indices of the Pareto set, sorted by cycles; of equal figures the first."""
    best = [i for i, f in enumerate(figures) if f not in figures[:i] and not any(other.beats(f) for other in figures)]
    return sorted(best, key=lambda i: figures[i])


def more(new: Figures, old: Figures) -> str:
    """Returns what a graph saves and needs, as "12,300 cycles fewer for 63.0 KiB more SRAM"."""
    memories = (("SRAM", new.sram - old.sram), ("flash", new.flash - old.flash))
    needs = " and ".join(f"{_size(n)} more {what}" for what, n in memories if n > 0)
    return f"{old.cycles - new.cycles:,} cycles fewer for {needs}"


def shortfall(limits: MemoryLimits, own: Figures, nearest: Figures) -> str:
    """Returns by how much a graph exceeds the limits, and what the graph that exceeds them least takes, in words."""
    memories = (("SRAM", limits.sram, own.sram, nearest.sram), ("flash", limits.flash, own.flash, nearest.flash))
    short = [m for m in memories if m[1] is not None and max(m[2:]) > m[1]]
    over = " and ".join(f"{used:,} of {most:,} bytes of {what}" for what, most, used, _ in short if used > (most or 0))
    if nearest.costs == own.costs:
        return f"does not fit: {over}; no graph that comes nearer was found"
    needs = [f"{least:,}" + f" of {what}" * (len(short) > 1) for what, _, _, least in short]
    ratio = nearest.cycles / max(1, own.cycles)
    return f"does not fit: {over}; the nearest graph needs {' and '.join(needs)} at {ratio:.2f} times the cycles"


def sizes_under_limits(limits: MemoryLimits, old: Figures, new: Figures) -> str:
    """Returns a text like "SRAM 189.9 KiB -> 124.5 KiB (limit 128.0 KiB)" of the limits that the old graph exceeds."""
    memories = (("SRAM", limits.sram, old.sram, new.sram), ("flash", limits.flash, old.flash, new.flash))
    short = (m for m in memories if m[1] is not None and m[2] > m[1])
    return ", ".join(f"{what} {_size(a)} -> {_size(b)} (limit {_size(most or 0)})" for what, most, a, b in short)


def _size(n: int) -> str:
    return f"{n / 1024:,.1f} KiB" if n >= 1024 else f"{n} bytes"
