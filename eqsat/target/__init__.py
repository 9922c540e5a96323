"""What a graph is compiled for: accelerator configurations and their native transposes."""

from eqsat.target.accelerators import ACCELERATORS, Target, TargetError

__all__ = ["ACCELERATORS", "Target", "TargetError"]
