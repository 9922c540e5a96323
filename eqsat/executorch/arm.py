"""The point of ExecuTorch's Arm pipeline at which eqsat takes over.

The pipeline runs once up to the first pass that concerns layout. A copy of the program goes through the rest of it,
which gives stock's TOSA. The program itself skips the layout passes: its TOSA has every layout change as an explicit
TRANSPOSE or RESHAPE. Nothing of ExecuTorch is patched: `_Split` is a private subclass that is registered nowhere.
Source of the order of passes: executorch 1.5 backends/arm/_passes/arm_pass_manager.py.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import Any

import tosa_serializer as ts
from executorch.backends.arm._passes import ArmPassManager
from executorch.backends.arm.common.arm_compile_spec import ArmCompileSpec
from executorch.backends.arm.debug.schema import ATenDebugSchema, TorchDebugSchema
from executorch.backends.arm.operators.node_visitor import get_node_visitors
from executorch.backends.arm.process_node import process_call_function, process_output, process_placeholder
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.pass_base import PassResult

from eqsat.executorch.nodes import first_source
from eqsat.tosa.locations import Origin

#: Stock passes that only place, merge or split data movement, which eqsat's rules and prices do.
LAYOUT_PASSES = frozenset(
    {
        "PropagateViewCopyPermuteDownPass",
        "PropagateViewCopyPermuteUpPass",
        "MoveDataMovementOpsToSmallerDtypePass",
        "RewriteHighRankSingletonPermutePass",
        "DecomposePermuteForU55Pass",
        "FuseConsecutiveSlicesPass",
        "CanonicalizeViewCopyPermutePass",
        "RemovePermutesAroundElementwiseTosaOps",
    }
)
#: The pass that makes TABLEs of operators.
_TABLE_PASS = "InsertTableOpsPass"
#: The pass before which the pipeline is split.
_FIRST_LAYOUT_PASS = "PropagateViewCopyPermuteDownPass"


class PipelineError(RuntimeError):
    """The installed ExecuTorch's pipeline is unknown to eqsat; the caller falls back to stock."""


@dataclass(frozen=True, slots=True)
class Tail:
    """The result of the rest of the pipeline: the flatbuffer, or why it failed, and the seconds that it took."""

    tosa: bytes | None
    error: str
    seconds: float


@dataclass(frozen=True, slots=True)
class HookPoint:
    """Two lowerings of one delegate: TOSA with all layout explicit, and stock's.

    explicit_seconds: wall-clock seconds of the passes and the serialisation of `explicit`.
    details: entries of ExecuTorch's debug.json by origin, if the compile spec asks for it.
    """

    explicit: bytes
    stock: Tail
    explicit_seconds: float
    details: Mapping[Origin, Mapping[str, Any]]


class _Split(ArmPassManager):
    """The pipeline up to the split, run once, and the rest of it for both programs."""

    hook: HookPoint | None = None
    details: dict[Origin, Mapping[str, Any]] | None  # None: debug.json is not wanted
    passes: list[Any]  # ExecuTorch's class has no types

    def __init__(self, compile_spec: Any) -> None:
        super().__init__(compile_spec)
        self.details = None if compile_spec.tosa_debug_mode is None else {}

    def _transform(self, exported_program: ExportedProgram, graph_module: GraphModule) -> GraphModule:
        """Runs the passes before the first layout pass, and then the rest for both programs of `hook`."""
        names = [type(p).__name__ for p in self.passes]
        if names.count(_FIRST_LAYOUT_PASS) != 1:
            raise PipelineError(
                f"ExecuTorch's Arm pipeline has {names.count(_FIRST_LAYOUT_PASS)} {_FIRST_LAYOUT_PASS}, expected 1"
            )
        everything, cut = self.passes, names.index(_FIRST_LAYOUT_PASS)
        of_tables: dict[str, Origin] = {}
        hook = _LocationHook(of_tables, self.details)

        def note_tables(module: GraphModule) -> PassResult:
            of_tables.update(_origins_by_table(module))
            return PassResult(module, False)

        tables = names.index(_TABLE_PASS) if _TABLE_PASS in names[:cut] else cut
        self.passes = [*everything[:tables], note_tables, *everything[tables:cut]]
        super()._transform(exported_program, exported_program.graph_module)
        duplicate = copy.deepcopy(exported_program)
        passes = [p for p in everything[cut:] if type(p).__name__ not in LAYOUT_PASSES]
        explicit, seconds = self._lower(passes, hook, exported_program)
        stock = self._stock_tail(everything[cut:], hook, duplicate)
        self.hook = HookPoint(explicit, stock, seconds, self.details or {})
        return exported_program.graph_module

    def _stock_tail(self, passes: list[Any], hook: _LocationHook, program: ExportedProgram) -> Tail:
        started = time.perf_counter()
        try:
            tosa, seconds = self._lower(passes, hook, program)
        except Exception as e:  # noqa: BLE001 - stock may fail where eqsat does not; that is stock's outcome
            return Tail(None, f"{type(e).__name__}: {e}", time.perf_counter() - started)
        return Tail(tosa, "", seconds)

    def _lower(self, passes: list[Any], hook: _LocationHook, program: ExportedProgram) -> tuple[bytes, float]:
        """Runs passes on a program, and returns its TOSA and the wall-clock seconds that this took."""
        started = time.perf_counter()
        self.passes = passes
        super()._transform(program, program.graph_module)
        return _serialise(program, self.tosa_spec, hook), time.perf_counter() - started


def lower(program: ExportedProgram, compile_spec: Any) -> HookPoint:
    """Lowers one delegate's edge program, which is modified, by a TosaCompileSpec.

    Raises PipelineError, and whatever ExecuTorch's passes raise.
    """
    if any(n.op == "get_attr" for n in program.graph_module.graph.nodes):
        raise PipelineError("the delegate has control flow (cond or while_loop), which eqsat does not optimize")
    manager = _Split(compile_spec)
    manager.transform_to_backend_pipeline(exported_program=program, graph_module=program.graph_module)
    assert manager.hook is not None
    return manager.hook


class _LocationHook:
    """A replacement for ExecuTorch's DebugHook, whose locations have nothing that differs between processes."""

    mode = ArmCompileSpec.DebugMode.TOSA

    def __init__(self, of_tables: Mapping[str, Origin], details: dict[Origin, Mapping[str, Any]] | None) -> None:
        self.of_tables, self.details = of_tables, details

    def add(self, node: Node, tosa_op: str, tosa_op_id: int) -> SimpleNamespace:
        """Returns the object that node visitors ask for the text of a location."""
        tables = (self.of_tables[n.name] for n in node.all_input_nodes if n.name in self.of_tables)
        found = next(tables, _origin(node))
        if self.details is not None and found not in self.details:
            aten, torch = ATenDebugSchema.from_node(node), TorchDebugSchema.from_node(node)
            self.details[found] = {"aten_info": asdict(aten), "torch_info": asdict(torch)}
        return SimpleNamespace(to_dict=found.record)


def _origin(node: Node) -> Origin:
    """Returns the origin of a node of a lowered program."""
    first = first_source(node)
    stack = list((node.meta.get("nn_module_stack") or {}).values())
    module, kind = stack[-1] if stack else ("", "")
    name = first.name if first is not None and "tosa." not in str(first.target) else ""
    kind = kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
    kind = "" if ".<locals>." in kind else kind  # a wrapper that torch.export makes
    return Origin(name, module, kind, node.meta.get("debug_handle"))


def _origins_by_table(module: GraphModule) -> dict[str, Origin]:
    """Returns origins by the constant of the TABLE, which has none itself (executorch 1.5, insert_table_ops.py)."""
    return {f"b_{n.name}_table_constant": _origin(n) for n in module.graph.nodes if n.op == "call_function"}


def _serialise(program: ExportedProgram, tosa_spec: Any, hook: _LocationHook) -> bytes:
    """Returns the TOSA flatbuffer of a fully lowered program, as ExecuTorch's tosa/backend.py makes it."""
    version = tosa_spec.version
    graph = ts.TosaSerializer(
        "",
        targetMajor=version.major,
        targetMinor=version.minor,
        targetPatch=version.micro,
        targetDraft=version.minor > 0,
    )
    visitors = get_node_visitors(tosa_spec, hook)
    for node in program.graph_module.graph.nodes:
        if node.op == "call_function":
            process_call_function(node, graph, visitors, tosa_spec)
        elif node.op == "placeholder":
            if node.users:
                process_placeholder(node, graph, program, None, tosa_spec)
        elif node.op == "output":
            process_output(node, graph, tosa_spec)
        else:
            raise PipelineError(f"node {node.name} ({node.op}) cannot be serialised to TOSA")
    return bytes(graph.serialize())
