"""The footprint rules (`eqsat/rules/footprint.py`) that are worth a second e-graph.

They are chosen by the memory that the fastest graphs exceed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from eqsat.choice.compiled import Compiled
from eqsat.egraph.rule import Rule
from eqsat.options.decision import MemoryLimits
from eqsat.rules import footprint

#: Share of the fastest graph's cycles by which a fitting graph may be slower and is near enough.
NEAR = 0.01


def fits_nearly(found: Sequence[Compiled], limits: MemoryLimits) -> bool:
    """Whether the fastest graph that fits is within `NEAR` of the fastest one."""
    fastest = min((c.figures.cycles for c in found), default=math.inf)
    return fastest_that_fits(found, limits) <= (1 + NEAR) * fastest


def fastest_that_fits(found: Sequence[Compiled], limits: MemoryLimits) -> float:
    """Returns the cycles of the fastest graph that fits, inf if none fits."""
    return min((c.figures.cycles for c in found if limits.fits(c.figures)), default=math.inf)


def rules_for_less(found: Sequence[Compiled], limits: MemoryLimits) -> list[Rule]:
    """Returns the footprint rules worth a second e-graph.

    Returns none if a graph within `NEAR` of the fastest fits.
    Returns none, too, if no rule reduces the memory that is exceeded.
    """
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
    """Whether weights are in SRAM at a step at which the limit is exceeded."""
    tensors, most = c.estimate.tensors, limits.sram
    return most is not None and any(
        c.estimate.read_by(t) and any(o.end > most for o in tensors if o.first <= t.last and t.first <= o.last)
        for t in tensors
    )


def _appends(c: Compiled, limits: MemoryLimits) -> bool:
    """Whether a graph that exceeds the limit of flash has a PAD, whose constant is in flash."""
    return limits.flash is not None and c.figures.flash > limits.flash and "pad" in c.graph.op_counts()
