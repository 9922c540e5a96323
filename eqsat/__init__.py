"""eqsat: an equality-saturation optimizer for PyTorch models on Arm Ethos-U NPUs.

    edge = eqsat.to_edge_transform_and_lower(exported_program, compile_spec)

replaces ExecuTorch's call of the same name; `eqsat.optimize_tosa` does the same for a TOSA flatbuffer, and
`eqsat.optimize` for a program before lowering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsat.ground._version import __version__ as __version__

if TYPE_CHECKING:
    from eqsat import runs
    from eqsat.before_lowering.optimize import AtenPass, ProgramReport, optimize
    from eqsat.checking import user_rules
    from eqsat.egraph import kinds
    from eqsat.egraph.attributes import Call
    from eqsat.egraph.externs import extern
    from eqsat.egraph.kinds import RuleError, op, such
    from eqsat.egraph.rule import Rule, rule
    from eqsat.egraph.terms import each, fact, let, symbols
    from eqsat.executorch.lowering import lower_with_session, to_edge_transform_and_lower
    from eqsat.executorch.partitioner import EthosUPartitioner, enabled
    from eqsat.executorch.recipe import RecipeType
    from eqsat.executorch.session import EqsatWarning, Session
    from eqsat.ground.files import PluginError
    from eqsat.options.options import Options
    from eqsat.search.interruption import Interruption
    from eqsat.search.optimizer import Result, optimize_tosa
    from eqsat.target import Target, TargetError

_HOME = {
    "to_edge_transform_and_lower": "eqsat.executorch.lowering",
    "lower_with_session": "eqsat.executorch.lowering",
    "EthosUPartitioner": "eqsat.executorch.partitioner",
    "enabled": "eqsat.executorch.partitioner",
    "RecipeType": "eqsat.executorch.recipe",
    "AtenPass": "eqsat.before_lowering.optimize",
    "EqsatWarning": "eqsat.executorch.session",
    "Session": "eqsat.executorch.session",
    "optimize_tosa": "eqsat.search.optimizer",
    "Interruption": "eqsat.search.interruption",
    "Options": "eqsat.options.options",
    "PluginError": "eqsat.ground.files",
    "Result": "eqsat.search.optimizer",
    "optimize": "eqsat.before_lowering.optimize",
    "ProgramReport": "eqsat.before_lowering.optimize",
    "Target": "eqsat.target",
    "TargetError": "eqsat.target",
    "Rule": "eqsat.egraph.rule",
    "rule": "eqsat.egraph.rule",
    "RuleError": "eqsat.egraph.kinds",
    "op": "eqsat.egraph.kinds",
    "such": "eqsat.egraph.kinds",
    "extern": "eqsat.egraph.externs",
    "Call": "eqsat.egraph.attributes",
    "symbols": "eqsat.egraph.terms",
    "let": "eqsat.egraph.terms",
    "each": "eqsat.egraph.terms",
    "fact": "eqsat.egraph.terms",
}
_MODULES = {"kinds": "eqsat.egraph.kinds", "runs": "eqsat.runs", "user_rules": "eqsat.checking.user_rules"}
__all__ = [
    "AtenPass",
    "Call",
    "EqsatWarning",
    "EthosUPartitioner",
    "Interruption",
    "Options",
    "PluginError",
    "ProgramReport",
    "RecipeType",
    "Result",
    "Rule",
    "RuleError",
    "Session",
    "Target",
    "TargetError",
    "each",
    "enabled",
    "extern",
    "fact",
    "kinds",
    "let",
    "lower_with_session",
    "op",
    "optimize",
    "optimize_tosa",
    "rule",
    "runs",
    "such",
    "symbols",
    "to_edge_transform_and_lower",
    "user_rules",
]


def __getattr__(name: str) -> Any:
    # torch and executorch take seconds to import: only what is used is loaded
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'eqsat' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Returns what completion offers: what users may rely on, and modules that are imported already."""
    return sorted({*__all__, *globals()} - {"TYPE_CHECKING", "Any", "annotations"})
