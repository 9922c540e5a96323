"""egglog behind one narrow module: load, step, saturate, freeze."""

from eqsat.egraph.engine import Budget, Engine, EngineError, Extern, Iteration, Rule, Saturation

__all__ = ["Budget", "Engine", "EngineError", "Extern", "Iteration", "Rule", "Saturation"]
