"""`eqsat.EthosUPartitioner`, and `eqsat.enabled` for scripts with Arm's partitioner."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.ethosu import EthosUPartitioner as ArmPartitioner
from executorch.backends.arm.tosa.partitioner import TOSAPartitioner, is_partitioned
from executorch.exir.backend.partitioner import DelegationSpec, PartitionResult
from executorch.exir.backend.utils import WhyNoPartitionReporter
from torch.export import ExportedProgram
from torch.fx import Node
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

from eqsat.executorch.backend import ENABLED, mark, preprocess, preprocess_multimethod, session_of
from eqsat.executorch.forms import use_accepted_forms
from eqsat.executorch.nodes import first_source, overload, with_own_graph
from eqsat.executorch.session import EqsatWarning, LeftOperator, Session, compile_spec_of
from eqsat.executorch.tables import FUNCTION, replace_function
from eqsat.ground.files import LoweringError
from eqsat.options.options import Options, require_options

#: {operator in the exported program that stays on the CPU: what to write instead}.
#: The survey of operators (docs/operators.md) tried each remedy: it runs on the NPU of every family.
REMEDIES = {
    "addcmul": "write addcmul(x, y, z) as x + y * z",
    "index": "write x[:, [3, 1, 2]] as a cat of slices",
    "index_select": "write index_select as a cat of slices",
    "lerp": "write lerp(x, y, w) as x + (y - x) * w",
    "tril": "write tril as a product with a mask, x * torch.ones(h, w).tril()",
    "triu": "write triu as a product with a mask, x * torch.ones(h, w).triu()",
}


def remedy(node: Node) -> str:
    """Returns the remedy for the operator that a node of a lowered program comes from, "" if there is none."""
    first = first_source(node)
    kind = str(node.target) if first is None else first.target
    return REMEDIES.get(kind.removeprefix("aten.").partition(".")[0], "")


def why_not(program: ExportedProgram) -> str:
    """Returns why no part of a program can go to an Ethos-U, with advice; "" otherwise."""
    nodes = program.graph.nodes
    if any(_has_symbols(n) for n in nodes if n.op == "placeholder"):
        return "it has dynamic shapes: export it with fixed shapes (no dynamic_shapes=)"
    is_float = any(v.is_floating_point() for n in nodes for v in _tensors(n))
    if is_float and not any("dequantize_per" in str(n.target) for n in nodes if n.op == "call_function"):
        return "it is a float model: quantize it (prepare_pt2e, calibrate, convert_pt2e) and export it again"
    return ""


def _tensors(node: torch.fx.Node) -> list[torch.Tensor]:
    """Returns the values of a node that are tensors."""
    return [v for v in tree_leaves(node.meta.get("val")) if isinstance(v, torch.Tensor)]


def _has_symbols(node: torch.fx.Node) -> bool:
    return not all(isinstance(size, int) for v in _tensors(node) for size in v.shape)


def nothing_taken(program: ExportedProgram) -> str:
    """Returns why the partitioner took no operator of a program."""
    if reason := why_not(program):
        return reason
    if any(map(_has_symbols, program.graph.nodes)):
        return "shapes in it depend on values, as nonzero's do, and an Ethos-U takes fixed shapes only"
    logger = "logging.getLogger('executorch.backends.arm')"
    return f"the partitioner takes none of its operators; {logger} says why at level INFO"


def _partition(self: Any, exported_program: ExportedProgram) -> PartitionResult:
    """Partitions like Arm's partitioner; a session is told what is left, with the reasons of Arm's code.

    Raises LoweringError if a function of one tensor gets no delegate, since the runtime has no operator for it.
    """
    session = session_of(self.delegation_spec.compile_specs)
    if session is None:
        return TOSAPartitioner.partition(self, exported_program)
    reporters: list[WhyNoPartitionReporter] = []

    def tagged(module: Any, program: ExportedProgram, reporter: WhyNoPartitionReporter, *more: Any) -> Any:
        reporters.append(reporter)
        return TOSAPartitioner._tag_module(self, module, program, reporter, *more)

    self._tag_module, self._detag_boundary_nodes = tagged, partial(_keep_out, self)
    try:
        result = TOSAPartitioner.partition(self, exported_program)
    finally:
        del self._tag_module, self._detag_boundary_nodes
    nodes = result.tagged_exported_program.graph.nodes
    if any(overload(n.target) is FUNCTION and "delegation_tag" not in n.meta for n in nodes):
        raise LoweringError("a function of one tensor got no delegate: please report this with the model")
    session.programs += 1
    rejected = {n: w for r in reporters for n, w in r._rejected_nodes.items()}
    session.left = _list_left(result.tagged_exported_program, rejected, session.left)
    if not result.partition_tags:
        reason = nothing_taken(exported_program)
        warnings.warn(
            f"no part of the program goes to {self.compile_spec.target}: {reason}", EqsatWarning, stacklevel=2
        )
    return result


def _keep_out(
    self: Any, module: Any, tag: str, reporter: WhyNoPartitionReporter, detag_first_fp_node: bool = True
) -> None:
    """Keeps quantize and dequantize nodes at a partition's boundary out of it, like Arm's partitioner, but all of them.

    Arm's goes through the nodes once, so a dequantize stays whose only reader goes after it.
    An INT delegate then has a float result: its lowering fails, or it writes integers where floats are read.
    The first is ExecuTorch's issue 17700, the second 19364; mended upstream by pull request 22966.
    """
    while True:
        before = [n for n in module.graph.nodes if is_partitioned(n, tag)]
        TOSAPartitioner._detag_boundary_nodes(self, module, tag, reporter, detag_first_fp_node)
        kept = [n for n in before if is_partitioned(n, tag)]
        results = [n for n in kept if any(not is_partitioned(user, tag) for user in n.users)]
        for node in results if detag_first_fp_node else ():
            if any(v.is_floating_point() for v in _tensors(node)):
                reporter.report_reject(node, "Its result is in floating point, and is read outside the partition.")
                del node.meta["delegation_tag"]
        if before == [n for n in kept if is_partitioned(n, tag)]:
            return


def _list_left(
    program: ExportedProgram, why: Mapping[torch.fx.Node, str], earlier: Sequence[LeftOperator]
) -> list[LeftOperator]:
    """Returns the operators without a delegate, by name, reason and remedy, after those of `earlier` programs."""
    found = Counter({(o.name, o.reason, o.remedy): o.number for o in earlier})
    nodes = (n for n in program.graph.nodes if n.op == "call_function" and "delegation_tag" not in n.meta)
    found.update((operator_name(n), " ".join(why.get(n, "").split()), remedy(n)) for n in nodes)
    return [LeftOperator(name, number, *told) for (name, *told), number in found.items() if name != "getitem"]


def operator_name(node: torch.fx.Node) -> str:
    """Returns the name of a node's operator, such as "aten.sort"."""
    return str(getattr(node.target, "__name__", node.target)).removesuffix(".default")


def _transform(self: Any, exported_program: ExportedProgram) -> ExportedProgram:
    """Transforms like Arm's partitioner, on a copy, and brings more operators of a session's program to the NPU."""
    if session_of(self.delegation_spec.compile_specs) is None:
        return TOSAPartitioner.transform_for_pre_decomposition(self, exported_program)
    program = TOSAPartitioner.transform_for_pre_decomposition(self, with_own_graph(exported_program))
    if self.additional_checks:  # these may keep functions on the CPU on purpose
        return use_accepted_forms(program, self.compile_spec)
    self.register_custom_partition_op(FUNCTION)
    return use_accepted_forms(program, self.compile_spec, replace_function)


class EthosUPartitioner(ArmPartitioner):
    """Arm's `EthosUPartitioner`, whose delegates are optimized.

    The .pte names the stock `EthosUBackend`.

    >>> edge = to_edge_transform_and_lower(program, partitioner=[eqsat.EthosUPartitioner("ethos-u85-256")])

    compile_spec: an EthosUCompileSpec, or an accelerator's name for ExecuTorch's default one.
    additional_checks: as for Arm's partitioner.
    options: the options of the search.
    `session` has the results per delegate, over all lowerings with this partitioner.

    Raises TypeError for arguments of another type.
    """

    def __init__(
        self,
        compile_spec: EthosUCompileSpec | str,
        additional_checks: Sequence[OperatorSupportBase] | None = None,
        *,
        options: Options | None = None,
    ) -> None:
        self.session = Session(require_options(options))
        spec = compile_spec_of(compile_spec)
        super().__init__(spec, additional_checks)
        self.delegation_spec = DelegationSpec(EthosUBackend.__name__, mark(spec._to_list(), self.session))
        _intercept()


def _intercept() -> None:
    """Has Arm's partitioner and backend look for a session from now on; without one they do as ever."""
    ArmPartitioner.partition, ArmPartitioner.transform_for_pre_decomposition = _partition, _transform
    EthosUBackend.preprocess = staticmethod(preprocess)
    EthosUBackend.preprocess_multimethod = classmethod(preprocess_multimethod)


@contextmanager
def enabled(options: Options | None = None) -> Iterator[Session]:
    """Optimizes every Ethos-U delegate that this process lowers, in any script.

    >>> with eqsat.enabled() as session:
    ...     runpy.run_module("executorch.backends.arm.scripts.aot_arm_compiler", run_name="__main__")

    Yields the session with the results per delegate.
    Delegates of an `eqsat.EthosUPartitioner` keep that partitioner's options.
    At its end it warns (EqsatWarning) if nothing was lowered.
    Raises TypeError for options of another type.
    """
    session = Session(require_options(options))
    _intercept()
    ENABLED.append(session)
    try:
        yield session
    finally:
        ENABLED.remove(session)
    if not session.delegates and not session.programs:
        warnings.warn("nothing was lowered to an Ethos-U while eqsat was enabled", EqsatWarning, stacklevel=3)
