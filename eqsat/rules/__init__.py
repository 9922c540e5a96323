"""The identities, one family per file, but for concats, which are of the family of slices. `RULES` is what the optimizer saturates with."""

from eqsat.rules import (
    across,
    channels,
    concats,
    convolution,
    matmul,
    moves,
    operators,
    positions,
    quantized,
    slicing,
    weights,
)

FAMILIES = (moves, across, slicing, concats, quantized, channels, weights, matmul, convolution, operators, positions)
RULES = [r for family in FAMILIES for r in family.RULES]
