"""Which of the compiled graphs is the answer, as far as cycles and memory go: the fastest of those that fit, by Vela's
corrected total unless another referee is asked for, and never one that is dearer than stock's graph by Vela's own
total.

Limits are bytes of SRAM in use at once, and of commands and weights, which stay in flash. By default no more SRAM than
stock's graph needs is allowed, or than the NPU has to itself (Dedicated_Sram), and so much flash that the .pte is at
most 1% or 4 KiB larger than stock's. So one graph always fits. Up to 5% of the .pte may be earned: each percent beyond
the limit has to buy at least 2% of the cycles.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from eqsat.options.limit import STOCK, Growth, parse
from eqsat.options.options import COMMAND_STREAM, CYCLES, SRAM, Options
from eqsat.vela.compile import Footprint


class Container(NamedTuple):
    """What is around the commands and weights of a delegate, and what uses its memory besides.

    fixed: bytes that a .pte has besides them, at least. padding: by how many more bytes than these the file may grow
    when they do, since what follows them begins at a multiple of 128 bytes. share: which part of the bytes by which the
    file may grow is this delegate's. arena: bytes of SRAM that the largest takes of stock's delegates before it in the
    same method, which run one after the other in one memory.

    Source: executorch 1.5. runtime/executor/method.cpp empties the temporary memory after each instruction, and a
    delegate of backends/arm/runtime takes its scratch memory from there. exir/_serialize/_program.py: a program with
    nothing but a call of a delegate takes 1,888 bytes on U85 and 2,000 on U55 and U65; with a float input and output
    2,512 and 2,640.
    """

    fixed: int
    padding: int = 0
    share: float = 1.0
    arena: int = 0

    @staticmethod
    def of(delegates: int | None, arena: int = 0) -> Container:
        """Around each of so many delegates of a .pte, which share what is fixed; None: it is not known of how many.
        arena: as the Container has it."""
        if delegates == 1:
            return ALONE
        return Container(0, 127, 1 / delegates if delegates else 0.0, arena)


#: Around the only delegate of a .pte, and around its SRAM, of which there is nothing else.
ALONE, _NOTHING = Container(1792), Container(0)


class Figures(NamedTuple):
    """What graphs are compared by: cycles by the referee, bytes of SRAM in use at once, bytes of commands and weights.
    vela_total: cycles as Vela itself adds them up, which decide nothing but whether a graph is dearer than stock's."""

    cycles: int
    sram: int
    flash: int
    vela_total: int = 0

    @staticmethod
    def of(cycles: int, footprint: Footprint, vela_total: int) -> Figures:
        return Figures(cycles, footprint.sram, footprint.payload, vela_total)

    def beats(self, other: Figures) -> bool:
        """Better in one of them, Vela's own total aside, and worse in none."""
        return self[:3] != other[:3] and all(a <= b for a, b in zip(self[:3], other[:3]))


#: Which share of the cycles a percent of flash beyond the limit has to buy.
_PERCENT_BUYS = 0.02


class Earned(NamedTuple):
    """Flash beyond a limit, for graphs that are so much faster. most: bytes of commands and weights in all; percent:
    bytes of 1% of stock's .pte."""

    most: int
    percent: float


@dataclass(frozen=True, slots=True)
class MemoryLimits:
    """Bytes that an answer may need at most; None: any number. earned: what it may need beyond `flash` where its cycles
    pay for it."""

    sram: int | None = None
    flash: int | None = None
    earned: Earned | None = None

    @staticmethod
    def of(
        options: Options, given: Mapping[str, Footprint], container: Container = ALONE, dedicated: int = 0
    ) -> MemoryLimits:
        """What the options say, where the given graphs ("stock", "explicit") need what `given` says and `container` is
        around them: "stock" means the explicit graph where there is no stock graph, and nothing where Vela refuses
        both.

        dedicated: bytes of SRAM that the NPU has to itself, which "stock" allows too, as it does what the arena has
        anyway.
        """
        stock = given.get("stock") or given.get("explicit")
        sram = _bytes(parse(options.max_sram, "max_sram"), stock.sram if stock else None, _NOTHING)
        growth, payload = parse(options.max_flash, "max_flash"), stock.payload if stock else None
        flash, earned = _bytes(growth, payload, container), None
        if isinstance(growth, Growth) and payload is not None and options.objective != SRAM:
            most = _bytes(Growth(growth.earned), payload, container)
            if most is not None and flash is not None and most > flash:
                earned = Earned(most, (payload + container.fixed) / 100)
        if sram is not None and options.max_sram == STOCK:
            sram = max(sram, dedicated, container.arena)
        return MemoryLimits(sram, flash, earned)

    @property
    def widest(self) -> MemoryLimits:
        """What an answer may need however it earns it."""
        return replace(self, flash=self.earned.most, earned=None) if self.earned else self

    def __str__(self) -> str:
        limits = ((self.sram, "SRAM"), (self.flash, "flash"))
        return " and ".join(f"{n:,} bytes of {what}" for n, what in limits if n is not None) or "any memory"

    def and_of(self, other: MemoryLimits) -> MemoryLimits:
        """The tighter of two limits, memory by memory."""
        flash, most = _tighter(self.flash, other.flash), _tighter(self.widest.flash, other.widest.flash)
        percent = next((limits.earned.percent for limits in (self, other) if limits.earned), None)
        earned = Earned(most, percent) if percent and most is not None and flash is not None and most > flash else None
        return MemoryLimits(_tighter(self.sram, other.sram), flash, earned)

    def excess(self, figures: Figures) -> float:
        """By which share of the limits a graph exceeds them, 0 where it fits."""
        return sum(
            max(0, used - limit) / max(1, limit)
            for used, limit in ((figures.sram, self.sram), (figures.flash, self.flash))
            if limit is not None
        )

    def fits(self, figures: Figures) -> bool:
        return self.excess(figures) == 0

    def priced(self, figures: Figures) -> int:
        """Cycles, and what those have to buy that take flash beyond the limit."""
        if self.earned is None or self.flash is None or figures.flash <= self.flash:
            return figures.cycles
        percents = (figures.flash - self.flash) / self.earned.percent
        return math.ceil(figures.cycles * (1 + _PERCENT_BUYS * percents))


def _tighter(a: int | None, b: int | None) -> int | None:
    return min((n for n in (a, b) if n is not None), default=None)


def _bytes(limit: int | Growth | None, stock: int | None, container: Container) -> int | None:
    """A limit in bytes, where stock's graph takes `stock` and `container` is around them; None: there is none."""
    if not isinstance(limit, Growth):
        return limit
    if stock is None:
        return None
    grown = max(limit.share * (stock + container.fixed), limit.bytes * container.share)
    return stock + max(0, int(grown) - container.padding)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the answer is chosen by: the objective, within the limits.

    cycles: those of stock's graph, which an answer may take at most with the objective "sram" (None: any number).
    vela_total: stock's by Vela's own total; an answer may not be dearer by it (None: it does not count).
    default: the limits that there would be without options.
    """

    objective: str = CYCLES
    limits: MemoryLimits = MemoryLimits()
    cycles: int | None = None
    vela_total: int | None = None
    default: MemoryLimits = MemoryLimits()

    @property
    def aims(self) -> list[MemoryLimits]:
        """The limits that graphs are looked for within: those of the answer and, where they allow more, the default
        ones first.

        So more memory finds all that less memory does.
        """
        within = self.limits.and_of(self.default)
        return [self.limits] if within == self.limits else [within, self.limits]

    @property
    def wider_aims(self) -> list[MemoryLimits]:
        """Those, each followed by what may be earned beyond it."""
        return list(dict.fromkeys(aim for limits in self.aims for aim in (limits, limits.widest)))

    @staticmethod
    def of(
        options: Options,
        footprints: Mapping[str, Footprint],
        figures: Mapping[str, Figures],
        container: Container = ALONE,
        dedicated: int = 0,
    ) -> Decision:
        """That of a run; footprints, figures: of stock's and of the explicit graph, as far as Vela takes them;
        dedicated: bytes of SRAM that the NPU has to itself."""
        before = figures.get("stock", figures.get("explicit"))
        return Decision(
            options.objective,
            MemoryLimits.of(options, footprints, container, dedicated),
            before.cycles if before and options.objective == SRAM else None,
            before.vela_total if before and options.referee != COMMAND_STREAM else None,
            MemoryLimits.of(replace(options, max_sram=STOCK, max_flash=STOCK), footprints, container, dedicated),
        )

    def is_better(self, a: Figures, b: Figures, by: float) -> bool:
        """Whether a exceeds nothing more than b does and is better by the objective, by more than a share of its
        own."""
        ours, theirs = self.rank(a), self.rank(b)
        return ours[:2] <= theirs[:2] and (1 + by) * ours[2] < theirs[2]

    def is_about_as_good(self, a: Figures, b: Figures, by: float) -> bool:
        """Whether a exceeds nothing more than b does and is worse by the objective by a share of b's at most."""
        ours, theirs = self.rank(a), self.rank(b)
        return ours[:2] <= theirs[:2] and ours[2] <= (1 + by) * theirs[2]

    def rank(self, figures: Figures) -> tuple[float, bool, int, int]:
        """What graphs are sorted by, the best first: by how much they exceed what they may need, whether Vela's own
        total is above stock's, then by the objective, where flash that has to be earned costs cycles."""
        excess = self.limits.widest.excess(figures)
        dearer = self.vela_total is not None and figures.vela_total > self.vela_total
        if self.objective != SRAM:
            return excess, dearer, self.limits.priced(figures), figures.sram
        if self.cycles is not None:
            excess += max(0, figures.cycles - self.cycles) / max(1, self.cycles)
        return excess, dearer, figures.sram, figures.cycles


def front(figures: Sequence[Figures]) -> list[int]:
    """The Pareto set: positions of those that no other one beats, by cycles; the first of equal ones."""
    best = [i for i, f in enumerate(figures) if f not in figures[:i] and not any(other.beats(f) for other in figures)]
    return sorted(best, key=lambda i: figures[i])


def more(new: Figures, old: Figures) -> str:
    """What a graph needs beyond another, for the user: "12,300 cycles fewer for 63.0 KiB more SRAM"."""
    return f"{old.cycles - new.cycles:,} cycles fewer for {' and '.join(_changes(new, old, '+'))}"


def under_limit(new: Figures, old: Figures) -> str:
    """What a graph would change that needs other SRAM, and the limit that asks for it, for the user: "with --max-sram
    205056: 14,026 cycles more, 51.8 KiB less SRAM"."""
    cycles = f"{abs(new.cycles - old.cycles):,} cycles {'more' if new.cycles > old.cycles else 'fewer'}"
    return f"with --max-sram {new.sram}: {cycles}, {' and '.join(_changes(new, old, '+-'))}"


def _changes(new: Figures, old: Figures, signs: str) -> list[str]:
    """By how much memories differ, where they are more ("+") or less ("-")."""
    memories = (("SRAM", new.sram - old.sram), ("flash", new.flash - old.flash))
    words = {"+": "more", "-": "less"}
    differences = ((what, n, "+" if n > 0 else "-") for what, n in memories if n)
    return [f"{abs(n) / 1024:,.1f} KiB {words[sign]} {what}" for what, n, sign in differences if sign in signs]
