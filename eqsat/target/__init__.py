"""Compilation targets: accelerator families, their configurations and their native transposes."""

from eqsat.target.accelerators import ACCELERATORS, Target, TargetError
from eqsat.target.family import FAMILIES, Family

__all__ = ["ACCELERATORS", "FAMILIES", "Family", "Target", "TargetError"]
