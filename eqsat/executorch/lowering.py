"""The one-line entry for ExecuTorch users.

>>> # before:  edge = to_edge_transform_and_lower(ep, partitioner=[EthosUPartitioner(spec)])
>>> # after:   edge = eqsat.to_edge_transform_and_lower(ep, partitioner=[EthosUPartitioner(spec)])
>>> # or:      edge = eqsat.to_edge_transform_and_lower(ep, "ethos-u85-256")

Each delegate's graph is optimized inside the lowering.
Vela compiles the chosen TOSA, byte for byte.
The .pte names the stock `EthosUBackend` and runs on the stock runtime.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig, ExecutorchProgramManager
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from torch.export import ExportedProgram

from eqsat.executorch.bookkeeping import less_bookkeeping
from eqsat.executorch.partitioner import EthosUPartitioner, enabled, operator_name
from eqsat.executorch.session import Session, compile_spec_of
from eqsat.ground.worker import begin_workers
from eqsat.options.options import Options
from eqsat.search.interruption import Interruption

#: The lock by which one lowering runs at a time.
#: PyTorch keeps state of the present graph in globals of the process (torch/fx/traceback.py).
#: So two lowerings in threads break each other, even without eqsat.
_LOWERING = threading.RLock()

#: Modules that the workers of a search need; ExecuTorch's passes leave a core for their import.
_MODULES = (
    "ethosu.regor",
    "ethosu.vela.vela",
    "eqsat.vela.regor",
    "cost_models.measuring",
    "eqsat.device.verification",
    "eqsat.verification.worker",
)

Programs = ExportedProgram | Mapping[str, ExportedProgram]
#: A list for all methods, or one per method.
Partitioners = Sequence[Any] | Mapping[str, Sequence[Any]]


def to_edge_transform_and_lower(
    program: Programs,
    compile_spec: EthosUCompileSpec | str | None = None,
    *,
    options: Options | None = None,
    partitioner: Partitioners = (),
    **kwargs: Any,
) -> EdgeProgramManager:
    """Lowers like `executorch.exir.to_edge_transform_and_lower`, with Ethos-U delegates optimized.

    program: a quantized ExportedProgram (PT2E: convert_pt2e, then torch.export), or one per method.
    compile_spec: the target, an EthosUCompileSpec or an accelerator's name.
    Without it, an EthosUPartitioner (Arm's or eqsat's) is among the partitioners.
    partitioner: a list, or a list per method, as in ExecuTorch's own call.
    With a compile_spec these are further ones, tried after Ethos-U's.
    kwargs: arguments that go to ExecuTorch unchanged.
    `lower_with_session` also returns the results per delegate.

    Raises TargetError for an unknown accelerator, TypeError for arguments that do not go together, PluginError if a
    plug-in fails, and LoweringError if ExecuTorch's own passes do.
    """
    edge, _ = lower_with_session(program, compile_spec, options=options, partitioner=partitioner, **kwargs)
    return edge


def lower_with_session(
    program: Programs,
    compile_spec: EthosUCompileSpec | str | None = None,
    *,
    options: Options | None = None,
    partitioner: Partitioners = (),
    interruption: Interruption | None = None,
    **kwargs: Any,
) -> tuple[EdgeProgramManager, Session]:
    """Lowers like `to_edge_transform_and_lower`, and also returns the session.

    The session has the results per delegate and the wall-clock seconds per stage.
    interruption: the request to end the searches of all delegates early.
    """
    by_method = partitioner if isinstance(partitioner, Mapping) else {"": partitioner}
    theirs = [p for given in by_method.values() for p in given if isinstance(p, ArmPartitioner)]
    if any(isinstance(p, EthosUPartitioner) for p in theirs):
        raise TypeError("an eqsat.EthosUPartitioner is for ExecuTorch's own to_edge_transform_and_lower: call that")
    if compile_spec is not None and theirs:
        raise TypeError("both a compile_spec and an EthosUPartitioner: leave one of them out")
    if compile_spec is None and not theirs:
        raise TypeError(
            "no target: give a compile_spec, such as 'ethos-u85-256', or an EthosUPartitioner among the partitioners"
        )
    if compile_spec is not None:
        first = ArmPartitioner(compile_spec_of(compile_spec))
        if isinstance(partitioner, Mapping):
            methods = program if isinstance(program, Mapping) else ("forward",)
            partitioner = {m: [first, *partitioner.get(m, ())] for m in methods}
        else:
            partitioner = [first, *partitioner]
    with _LOWERING, enabled(options) as session, less_bookkeeping():
        session.interruption = interruption or session.interruption
        started = time.perf_counter()
        with suppress(OSError):  # the search meets it again, and tells of it
            begin_workers(_MODULES)
        edge = stock_lowering(program, partitioner=partitioner, **kwargs)
        session.seconds["total"] = time.perf_counter() - started
    edge.__class__ = _EdgeManager
    return edge, session


def cpu_operators(edge: EdgeProgramManager | ExecutorchProgramManager) -> dict[str, int]:
    """Returns the operators outside all delegates by name, with their numbers over all methods."""
    nodes = [n for m in sorted(edge.methods) for n in edge.exported_program(m).graph.nodes if n.op == "call_function"]
    names = map(operator_name, nodes)
    return dict(Counter(n for n in names if n not in ("getitem", "executorch_call_delegate")))


class _EdgeManager(EdgeProgramManager):
    """ExecuTorch's manager, which makes the .pte with less bookkeeping, too."""

    def to_executorch(self, config: ExecutorchBackendConfig | None = None) -> ExecutorchProgramManager:
        """Returns the program for the runtime, as ExecuTorch's manager does."""
        with _LOWERING, less_bookkeeping():
            return super().to_executorch(config)
