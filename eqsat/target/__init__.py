"""Compilation targets: accelerator families, their configurations and their native transposes."""

from eqsat.target.accelerators import ACCELERATORS, Target, TargetError
from eqsat.target.families import FAMILIES
from eqsat.target.family import Family

__all__ = ["ACCELERATORS", "FAMILIES", "Family", "Target", "TargetError"]
