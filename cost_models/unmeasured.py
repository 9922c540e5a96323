"""Prices of units without a probe: coarse closed forms of memory and output path."""

from __future__ import annotations

from cost_models.fusion import ACTIVATIONS
from cost_models.machine import hardware_of
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.tensor.ops import OPS

#: Cycles of an op that costs nothing by itself, but is better not there.
_NEXT_TO_NOTHING = 1.0
#: Cycles per element of a CONCAT or SLICE, which is sometimes a copy.
_CUT = 0.02
#: Products per cycle.
_PRODUCTS = 64


def unmeasured(unit: Unit, target: Target) -> float:
    """Returns the estimated cycles of a unit."""
    elements, kind = unit.result.elements, OPS[unit.op].kind
    moved = sum(t.bytes for t in (*unit.operands, unit.result)) / hardware_of(target).activations.bandwidth
    if unit.op == "transpose":  # of a dtype that is not probed
        return elements
    if kind == "leaf":
        return 0.0
    if unit.op == "reshape":
        return _NEXT_TO_NOTHING
    if unit.op in ("slice", "concat"):
        return _NEXT_TO_NOTHING + _CUT * elements
    if kind == "mac":
        weights = unit.operands[1].bytes if len(unit.operands) > 1 else 1
        return _NEXT_TO_NOTHING + moved + elements * max(1.0, weights / max(1, unit.result.shape[-1])) / _PRODUCTS
    if unit.op in ("rescale", *ACTIVATIONS):
        return copied(unit, target)
    path = target.core.add if unit.op in ("add", "sub") else target.core.mul
    return _NEXT_TO_NOTHING + max(path * elements, moved)


def copied(unit: Unit, target: Target) -> float:
    """Returns the cycles of an op that runs as a 1x1 pooling over the result."""
    moved = (unit.operands[0].bytes + unit.result.bytes) / hardware_of(target).activations.bandwidth
    return _NEXT_TO_NOTHING + max(target.family.copy * target.core.byte * unit.result.elements, moved)
