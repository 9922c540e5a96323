"""The rewrite rules, a file per family; rules on concats belong to the family of slices.

`RULES` are the exact ones, which the optimizer saturates with.
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
    sparsity,
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
    sparsity,
    operators,
)
RULES = [r for family in FAMILIES for r in family.RULES]
