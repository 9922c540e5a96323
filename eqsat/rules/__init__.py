"""The rewrite rules, one file per family.

`RULES` are the exact rules, with which the optimizer saturates.
"""

from eqsat.rules import (
    across,
    blocking,
    channels,
    convolution,
    grouped,
    matmul,
    moves,
    operators,
    quantized,
    roles,
    slicing,
)

FAMILIES = (
    moves,
    across,
    slicing,
    quantized,
    channels,
    roles,
    matmul,
    convolution,
    grouped,
    blocking,
    operators,
)
RULES = [r for family in FAMILIES for r in family.RULES]
