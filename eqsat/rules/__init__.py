"""The rewrite rules, one file per family; rules for CONCAT belong to the family `slicing`.

`RULES` are the exact rules, with which the optimizer saturates.
"""

from eqsat.rules import (
    across,
    blocking,
    channels,
    concats,
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
    concats,
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
