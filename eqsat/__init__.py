"""eqsat: an equality-saturation optimizer for PyTorch models on Arm Ethos-U NPUs.

    edge = eqsat.to_edge_transform_and_lower(exported_program, compile_spec)

replaces ExecuTorch's call of the same name; `eqsat.optimize_tosa` does the same for a TOSA flatbuffer, and
`eqsat.optimize` for a program before lowering.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from eqsat import runs
    from eqsat.checking import user_rules
    from eqsat.egraph.engine import Extern, Rule
    from eqsat.executorch.lowering import EqsatWarning, lower_with_session, to_edge_transform_and_lower
    from eqsat.executorch.program import ProgramReport, optimize
    from eqsat.search.optimizer import Result, optimize_tosa
    from eqsat.search.options import Options
    from eqsat.target import Target, TargetError

__version__ = "0.2.0.dev0"

_HOME = {
    "to_edge_transform_and_lower": "eqsat.executorch.lowering",
    "lower_with_session": "eqsat.executorch.lowering",
    "EqsatWarning": "eqsat.executorch.lowering",
    "optimize_tosa": "eqsat.search.optimizer",
    "Options": "eqsat.search.options",
    "Result": "eqsat.search.optimizer",
    "optimize": "eqsat.executorch.program",
    "ProgramReport": "eqsat.executorch.program",
    "Target": "eqsat.target",
    "TargetError": "eqsat.target",
    "Rule": "eqsat.egraph.engine",
    "Extern": "eqsat.egraph.engine",
}
_MODULES = {"runs": "eqsat.runs", "user_rules": "eqsat.checking.user_rules"}
__all__ = [
    "EqsatWarning",
    "Extern",
    "Options",
    "ProgramReport",
    "Result",
    "Rule",
    "Target",
    "TargetError",
    "lower_with_session",
    "optimize",
    "optimize_tosa",
    "runs",
    "to_edge_transform_and_lower",
    "user_rules",
]


def __getattr__(name: str):
    # torch and executorch take seconds to import: only what is used is loaded
    from importlib import import_module

    if name in _MODULES:
        return import_module(_MODULES[name])
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'eqsat' has no attribute {name!r}")
