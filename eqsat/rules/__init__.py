"""The identities, one file per family. `RULES` and `EXTERNS` are what the optimizer saturates with."""
from eqsat.rules import across, moves

FAMILIES = (moves, across)
RULES = [r for family in FAMILIES for r in family.RULES]
EXTERNS = [e for family in FAMILIES for e in family.EXTERNS]
