"""The identities, one file per family. `RULES` and `EXTERNS` are what the optimizer saturates with."""
from eqsat.rules import across, moves, quantized, slicing

FAMILIES = (moves, across, slicing, quantized)
RULES = [r for family in FAMILIES for r in family.RULES]
EXTERNS = [e for family in FAMILIES for e in family.EXTERNS]
