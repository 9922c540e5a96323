"""Which forms that need less memory (`eqsat/rules/footprint.py`) are worth a second e-graph: those of what the fastest
graphs have too much of."""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.egraph.rule import Rule
from eqsat.options.decision import MemoryLimits
from eqsat.rules import footprint

#: No more is looked for where a graph that fits is slower by this share at most.
NEAR = 0.01


def fits_nearly(found: Sequence[Compiled], limits: MemoryLimits) -> bool:
    """Whether the fastest graph that fits is about as fast as the fastest."""
    fastest = min((c.figures.cycles for c in found), default=math.inf)
    return fastest_that_fits(found, limits) <= (1 + NEAR) * fastest


def fastest_that_fits(found: Sequence[Compiled], limits: MemoryLimits) -> float:
    """Cycles, inf if none fits."""
    return min((c.figures.cycles for c in found if limits.fits(c.figures)), default=math.inf)


def rules_for_less(found: Sequence[Compiled], limits: MemoryLimits) -> list[Rule]:
    """Rules that make forms with less of it: none where about the fastest graph fits, or where what is too much is
    nothing that they are about."""
    if fits_nearly(found, limits):
        return []
    fits = fastest_that_fits(found, limits)
    faster = [c for c in found if (1 + NEAR) * c.figures.cycles < fits]
    wanted: set[str] = set()
    if any(_buffers_weights(c, limits) for c in faster):
        wanted |= {"halved-conv", "halved-conv-channels"}
    if any(_appends(c, limits) for c in faster):
        wanted.add("pad-depthwise")
    return [r for r in footprint.RULES if r.name in wanted]


def _buffers_weights(c: Compiled, limits: MemoryLimits) -> bool:
    """Whether weights are in SRAM at a step where it runs short."""
    tensors, most = c.estimate.tensors, limits.sram
    return most is not None and any(
        c.estimate.read_by(t) and any(o.end > most for o in tensors if o.first <= t.last and t.first <= o.last)
        for t in tensors
    )


def _appends(c: Compiled, limits: MemoryLimits) -> bool:
    """Whether a PAD has a constant in flash, of which there is too much."""
    return limits.flash is not None and c.figures.flash > limits.flash and "pad" in c.graph.op_counts()
