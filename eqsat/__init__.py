"""eqsat: an equality-saturation optimizer for PyTorch models on Arm Ethos-U NPUs.

    edge = eqsat.to_edge_transform_and_lower(exported_program, compile_spec)

replaces ExecuTorch's call of the same name; `eqsat.optimize_tosa` does the same for a TOSA flatbuffer.
`eqsat.optimize` prepares a program for a lowering without eqsat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from eqsat.ground._version import __version__ as __version__

if TYPE_CHECKING:
    from eqsat import runs as runs
    from eqsat.checking import user_rules as user_rules
    from eqsat.egraph import kinds as kinds
    from eqsat.egraph.kinds import Call as Call
    from eqsat.egraph.kinds import RuleError as RuleError
    from eqsat.egraph.kinds import op as op
    from eqsat.egraph.kinds import such as such
    from eqsat.egraph.rule import Rule as Rule
    from eqsat.egraph.rule import rule as rule
    from eqsat.egraph.terms import each as each
    from eqsat.egraph.terms import extern as extern
    from eqsat.egraph.terms import fact as fact
    from eqsat.egraph.terms import let as let
    from eqsat.egraph.terms import symbols as symbols
    from eqsat.executorch.forms import ProgramReport as ProgramReport
    from eqsat.executorch.forms import optimize as optimize
    from eqsat.executorch.lowering import lower_with_session as lower_with_session
    from eqsat.executorch.lowering import to_edge_transform_and_lower as to_edge_transform_and_lower
    from eqsat.executorch.partitioner import EthosUPartitioner as EthosUPartitioner
    from eqsat.executorch.partitioner import enabled as enabled
    from eqsat.executorch.session import EqsatWarning as EqsatWarning
    from eqsat.executorch.session import Session as Session
    from eqsat.ground.files import PluginError as PluginError
    from eqsat.options.options import Options as Options
    from eqsat.search.interruption import Interruption as Interruption
    from eqsat.search.optimizer import Result as Result
    from eqsat.search.optimizer import optimize_tosa as optimize_tosa
    from eqsat.target import Target as Target
    from eqsat.target import TargetError as TargetError

#: {module: names in it that users may rely on}.
_NAMES = {
    "eqsat.egraph.kinds": ("Call", "RuleError", "op", "such"),
    "eqsat.egraph.rule": ("Rule", "rule"),
    "eqsat.egraph.terms": ("each", "extern", "fact", "let", "symbols"),
    "eqsat.executorch.forms": ("ProgramReport", "optimize"),
    "eqsat.executorch.lowering": ("lower_with_session", "to_edge_transform_and_lower"),
    "eqsat.executorch.partitioner": ("EthosUPartitioner", "enabled"),
    "eqsat.executorch.session": ("EqsatWarning", "Session"),
    "eqsat.ground.files": ("PluginError",),
    "eqsat.options.options": ("Options",),
    "eqsat.search.interruption": ("Interruption",),
    "eqsat.search.optimizer": ("Result", "optimize_tosa"),
    "eqsat.target": ("Target", "TargetError"),
}
_HOME = {name: module for module, names in _NAMES.items() for name in names}
_MODULES = {"kinds": "eqsat.egraph.kinds", "runs": "eqsat.runs", "user_rules": "eqsat.checking.user_rules"}
__all__ = sorted([*_HOME, *_MODULES])


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
