"""The identities, one file per family. `RULES` and `EXTERNS` are what the optimizer saturates with."""

from eqsat.rules import across, channels, convolution, matmul, moves, operators, quantized, slicing, weights

FAMILIES = (moves, across, slicing, quantized, channels, weights, matmul, convolution, operators)
RULES = [r for family in FAMILIES for r in family.RULES]
EXTERNS = [e for family in FAMILIES for e in family.EXTERNS]
