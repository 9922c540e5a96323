"""The identities, one family per file, but for concats, which are of the family of slices. `RULES` is what the
optimizer saturates with."""

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
    positions,
    quantized,
    slicing,
    sparsity,
    weights,
)

FAMILIES = (
    moves,
    across,
    slicing,
    concats,
    quantized,
    channels,
    weights,
    matmul,
    convolution,
    grouped,
    blocking,
    sparsity,
    operators,
    positions,
)
RULES = [r for family in FAMILIES for r in family.RULES]
