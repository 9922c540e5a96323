"""The identities, one file per family. `RULES` and `EXTERNS` are what the optimizer saturates with."""

from eqsat.egraph.rule import Rule
from eqsat.rules import across, channels, convolution, matmul, moves, operators, positions, quantized, slicing, weights

FAMILIES = (moves, across, slicing, quantized, channels, weights, matmul, convolution, operators, positions)
_TYPED = {r.name: r for family in FAMILIES for r in family.RULES if isinstance(r, Rule)}
RULES = [r.for_engine() if isinstance(r, Rule) else r for family in FAMILIES for r in family.RULES]
EXTERNS = [
    *(e for family in FAMILIES for e in getattr(family, "EXTERNS", ())),
    *{e.name: e for r in _TYPED.values() for e in r.externs}.values(),
]
