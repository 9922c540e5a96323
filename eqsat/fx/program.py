"""One view of an ExportedProgram and of a GraphModule: its graph, its constants, and how to make its successor."""

from __future__ import annotations

import copy
import operator
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, InputSpec, TensorArgument
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from eqsat.fx.aten import functional, is_copy, is_inplace, overload
from eqsat.fx.moves import is_movement

Program = ExportedProgram | GraphModule
#: Larger results of constant ops are not computed here; they stay ops.
_MOST_ELEMENTS = 1 << 22


class ProgramError(ValueError):
    """A program that cannot be rewritten; the message says why."""


@dataclass(slots=True)
class Source:
    """A program to read. `constants`: node -> tensor for parameters, buffers and constants that nothing mutates."""

    program: Program
    graph: Graph
    constants: dict[Node, torch.Tensor]
    fake_mode: FakeTensorMode
    _known: dict[Node, torch.Tensor | None] = field(default_factory=dict)
    _constant: dict[Node, bool] = field(default_factory=dict)

    @property
    def placeholders(self) -> list[Node]:
        return [n for n in self.graph.nodes if n.op == "placeholder"]

    @property
    def inputs(self) -> list[Node]:
        """Placeholders of user inputs and of buffers that the program mutates: what its outputs vary with."""
        return [n for n in self.placeholders if n not in self.constants and isinstance(n.meta.get("val"), torch.Tensor)]

    @property
    def outputs(self) -> list[Any]:
        return _flat(self.graph.output_node().args[0])

    def is_constant(self, node: Node) -> bool:
        """True if the node's value is the same in every run."""
        found = self._constant.get(node)
        if found is None:
            op = overload(node.target) if node.op == "call_function" else None
            pure = (
                node.target is operator.getitem
                or op is not None
                and not (op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags)
            )
            found = (
                node in self.constants
                or node.op == "call_function"
                and pure
                and all(self.is_constant(n) for n in node.all_input_nodes)
            )
            self._constant[node] = found
        return found

    def value(self, node: Node) -> torch.Tensor | None:
        """A constant node's value, or None if it is not a dense CPU tensor of moderate size."""
        if node not in self._known:
            self._known[node] = self._evaluate(node)
        return self._known[node]

    def _evaluate(self, node: Node) -> torch.Tensor | None:
        if node in self.constants:
            found = self.constants[node].detach()
        else:
            val = node.meta.get("val")
            if overload(node.target) is None or not isinstance(val, torch.Tensor) or val.numel() > _MOST_ELEMENTS:
                return None
            values = {n: self.value(n) for n in node.all_input_nodes}
            if any(v is None for v in values.values()):
                return None
            args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: values[n])
            with torch.no_grad():
                found = functional(node.target)(*args, **kwargs)
        dense = (
            isinstance(found, torch.Tensor)
            and found.layout == torch.strided
            and found.device.type == "cpu"
            and not isinstance(found, FakeTensor)
        )
        return found if dense else None


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [x for v in value for x in _flat(v)]
    if isinstance(value, dict):
        return [x for v in value.values() for x in _flat(v)]
    return [value]


def read(program: Program) -> Source:
    """Raises ProgramError for what cannot be rewritten: dynamic shapes, mutations, and graphs whose shapes are
    unknown."""
    if isinstance(program, ExportedProgram):
        graph, constants = program.graph, _lifted(program)
        if program.range_constraints:
            raise ProgramError(
                f"dynamic shapes ({', '.join(map(str, program.range_constraints))}): export with fixed shapes"
            )
    elif isinstance(program, GraphModule):
        program = _with_shapes(program)
        graph = program.graph
        constants = {
            n: t
            for n in graph.nodes
            if n.op == "get_attr" and isinstance(t := _attribute(program, n.target), torch.Tensor)
        }
    else:
        raise TypeError(f"expected an ExportedProgram or an FX GraphModule, got {type(program).__name__}")
    modes = [t.fake_mode for n in graph.nodes if isinstance(t := n.meta.get("val"), FakeTensor)]
    if not modes:
        raise ProgramError("no node knows its shape (meta['val']): export the module with torch.export first")
    for n in graph.nodes:
        _check(n)
    return Source(program, graph, constants, modes[0])


def _lifted(program: ExportedProgram) -> dict[Node, torch.Tensor]:
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    state = {**program.state_dict, **program.constants}
    out = {}
    for node, spec in zip(
        (n for n in program.graph.nodes if n.op == "placeholder"), signature.input_specs, strict=True
    ):
        if (
            spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
            and spec.target not in mutated
        ):
            value = state.get(spec.target)
            if isinstance(value, torch.Tensor):
                out[node] = value
    return out


def _attribute(module: torch.nn.Module, target: str) -> Any:
    found: Any = module
    for part in target.split("."):
        found = getattr(found, part, None)
    return found


def _with_shapes(module: GraphModule) -> GraphModule:
    """The module itself if its nodes know their shapes, else a copy (of the graph only) whose nodes do."""
    nodes = list(module.graph.nodes)
    if all("val" in n.meta for n in nodes if n.op == "call_function"):
        return module
    inputs = [n.meta.get("val") for n in nodes if n.op == "placeholder"]
    if not all(isinstance(v, FakeTensor) for v in inputs) or not inputs:
        raise ProgramError(
            "the inputs' shapes are unknown (meta['val'] of the placeholders): export the module with torch.export first"
        )
    copied = GraphModule(module, copy.deepcopy(module.graph))
    FakeTensorProp(copied, inputs[0].fake_mode).propagate_dont_convert_inputs(*inputs)
    return copied


def _check(node: Node) -> None:
    """Raises ProgramError for a node that cannot be rewritten."""
    if any(map(_is_dynamic, _flat(node.meta.get("val")))):
        raise ProgramError(f"{node.name} has a dynamic shape or value: export with fixed shapes")
    if node.op in ("call_module", "call_method") and not _is_guard(node):
        raise ProgramError(f"{node.name} is a {node.op}: give a program at ATen level, as torch.export makes it")
    if node.op != "call_function":
        return
    op = overload(node.target)
    if op is not None and op._schema.is_mutable:
        if not _is_functional_here(node):
            raise ProgramError(
                f"{node.name} ({node.target}) changes a tensor in place: run program.run_decompositions({{}}) first"
            )
    elif node.is_impure() and not is_copy(node):  # dropout that is switched off copies
        raise ProgramError(f"{node.name} ({node.target}) has side effects")


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not all(isinstance(d, int) for d in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_functional_here(node: Node) -> bool:
    """True for an in-place op that can be written as the functional one: it acts on a fresh tensor that nobody else
    reads."""
    x = node.args[0] if node.args else None
    fresh = isinstance(x, Node) and x.op == "call_function" and set(x.users) == {node} and not is_movement(x)
    return fresh and is_inplace(node.target) and functional(node.target) is not None


def _is_guard(node: Node) -> bool:
    """The check of the inputs that `ExportedProgram.module()` begins with."""
    return (
        node.op == "call_module"
        and node.target == "_guards_fn"
        and all(n.op == "placeholder" for n in node.all_input_nodes)
    )


class ProgramBuilder:
    """A new program in the making: a graph with the source's placeholders and attributes, to which nodes are
    appended."""

    def __init__(self, source: Source):
        self.source, self.graph = source, Graph()
        self.nodes: dict[Node, Node] = {}
        self.new: dict[str, torch.Tensor] = {}
        self._after: Node | None = None  # new constants follow the lifted ones and precede the user's inputs
        for n in source.placeholders:
            self.nodes[n] = self.graph.node_copy(n)
            self.nodes[n].name = n.name  # also names that FX would rather not give, such as `input`
            if n in source.constants:
                self._after = self.nodes[n]
        for n in filter(_is_guard, source.graph.nodes):
            self.graph.node_copy(n, self.nodes.__getitem__)

    def call(self, target: Any, *args: Any, meta: dict[str, Any] | None = None, **kwargs: Any) -> Node:
        """Appends an op; its fake value is computed. Raises what the op raises on operands that do not fit."""
        node = self.graph.call_function(target, args, kwargs)
        node.meta.update(meta or {})
        try:
            self._trace(node)
        except Exception:
            self.graph.erase_node(node)
            raise
        return node

    def copy(self, node: Node, known: dict[Node, Node]) -> Node:
        """Appends a copy of a source node on operands `known` (others: constants, copied once). In-place ops become
        functional."""
        new = self.graph.node_copy(node, lambda n: known[n] if n in known else self.constant(n))
        if new.op == "call_function" and overload(new.target) is not None:
            new.target = functional(new.target)
            self._trace(new)
        return new

    def _trace(self, node: Node) -> None:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        with self.source.fake_mode:
            assert callable(node.target)
            node.meta["val"] = node.target(*args, **kwargs)

    def constant(self, node: Node) -> Node:
        """The copy of a source node that depends on constants alone (or is an attribute, or makes a tensor from
        nothing)."""
        if node not in self.nodes:
            self.nodes[node] = self.copy(node, {})
        return self.nodes[node]

    def new_constant(self, value: torch.Tensor) -> Node:
        """A constant tensor that the source did not have."""
        target = f"_eqsat_constant_{len(self.new)}"
        self.new[target] = value
        if isinstance(self.source.program, ExportedProgram):
            first = next(iter(self.graph.nodes))
            with self.graph.inserting_after(self._after) if self._after else self.graph.inserting_before(first):
                node = self.graph.placeholder(f"c_{target}")
            self._after = node
        else:
            node = self.graph.get_attr(target)
        with self.source.fake_mode:  # from_tensor would leave traces of a source in the shape guards
            node.meta["val"] = torch.empty(value.shape, dtype=value.dtype)
        return node

    def finish(self, outputs: Sequence[Any]) -> Program:
        """The new program, of the source's kind and signature; `outputs` in the order of `source.outputs`."""
        old = self.source.graph.output_node()
        given = iter(outputs)
        self.graph.output(_rebuild(old.args[0], given))
        self.graph._codegen = self.source.graph._codegen
        program = self.source.program
        if isinstance(program, GraphModule):
            root = copy.copy(program)  # shares the tensors
            for target, value in self.new.items():
                root.register_buffer(target, value)
            module = GraphModule(root, self.graph, program.__class__.__name__)
            module.meta.update(program.meta)
            return module
        self.graph.lint()
        return program._update(
            GraphModule(program.graph_module, self.graph),
            self._signature(program, outputs),
            constants={**program.constants, **self.new},
        )

    def _signature(self, program: ExportedProgram, outputs: Sequence[Any]):
        signature = copy.deepcopy(program.graph_signature)
        placeholders = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        added = {f"c_{t}": InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=f"c_{t}"), t) for t in self.new}
        old = iter(signature.input_specs)
        signature.input_specs = [added[p] if p in added else next(old) for p in placeholders]
        for spec, node in zip(signature.output_specs, outputs, strict=True):
            if not isinstance(spec.arg, ConstantArgument) and isinstance(node, Node):
                spec.arg.name = node.name
        return signature


def _rebuild(value: Any, given) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)([_rebuild(v, given) for v in value])
    if isinstance(value, dict):
        return {k: _rebuild(v, given) for k, v in value.items()}
    return next(given)


__all__ = ["ProgramBuilder", "Program", "ProgramError", "Source", "read"]
