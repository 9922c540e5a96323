"""A common view of ExportedProgram and GraphModule: graph, constants, and how to rewrite it."""

from __future__ import annotations

import copy
import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.export import ExportedProgram
from torch.export.graph_signature import (
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    TensorArgument,
)
from torch.fx import Graph, GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp
from torch.utils._pytree import tree_leaves, tree_structure, tree_unflatten

from eqsat.before_lowering.movement import is_movement
from eqsat.before_lowering.vocabulary import arguments, functional, is_copy, is_inplace, overload

Program = ExportedProgram | GraphModule


class ProgramError(ValueError):
    """A program that cannot be rewritten; the message says why."""


@dataclass(slots=True)
class Source:
    """A program to read.

    constants: {node: tensor} of parameters, buffers and constants that nothing mutates.
    """

    program: Program
    graph: Graph
    constants: dict[Node, torch.Tensor]
    fake_mode: FakeTensorMode
    _constant: dict[Node, bool] = field(default_factory=dict)

    @property
    def placeholders(self) -> list[Node]:
        """All placeholders of the graph, including parameters."""
        return [n for n in self.graph.nodes if n.op == "placeholder"]

    @property
    def inputs(self) -> list[Node]:
        """Placeholders of user inputs and of buffers that the program mutates."""
        return [n for n in self.placeholders if n not in self.constants and isinstance(n.meta.get("val"), torch.Tensor)]

    @property
    def outputs(self) -> list[Any]:
        """The values of the output node, flat."""
        return tree_leaves(self.graph.output_node().args[0])

    def is_constant(self, node: Node) -> bool:
        """Tells whether the node's value is the same in every run."""
        if node not in self._constant:
            known = node in self.constants
            made = _is_pure(node) and all(map(self.is_constant, node.all_input_nodes))
            self._constant[node] = known or made
        return self._constant[node]

    def value(self, node: Node) -> torch.Tensor | None:
        """Returns the tensor of a parameter, buffer or constant.

        Returns None for other nodes, and for tensors that are not dense on the CPU.
        """
        found = self.constants.get(node)
        if found is None or found.layout != torch.strided or found.device.type != "cpu":
            return None
        return None if isinstance(found, FakeTensor) else found.detach()


def _is_pure(node: Node) -> bool:
    op = overload(node.target) if node.op == "call_function" else None
    if op is None:
        return node.target is operator.getitem
    return not (op._schema.is_mutable or torch.Tag.nondeterministic_seeded in op.tags)


def read(program: Program) -> Source:
    """Returns the view of a program.

    Raises ProgramError for dynamic shapes, mutations, and graphs whose shapes are unknown.
    """
    if isinstance(program, ExportedProgram):
        graph, constants = program.graph, _lifted(program)
        if program.range_constraints:
            raise ProgramError(
                f"dynamic shapes ({', '.join(map(str, program.range_constraints))}): export with fixed shapes"
            )
    else:
        program = _with_shapes(program)
        graph, constants = program.graph, _attributes(program)
    modes = [t.fake_mode for n in graph.nodes if isinstance(t := n.meta.get("val"), FakeTensor)]
    if not modes:
        raise ProgramError("no node knows its shape (meta['val']): export the module with torch.export first")
    for n in graph.nodes:
        _check(n)
    return Source(program, graph, constants, modes[0])


def _lifted(program: ExportedProgram) -> dict[Node, torch.Tensor]:
    """Returns the values of an exported program's placeholders that nothing mutates."""
    signature = program.graph_signature
    mutated = set(signature.buffers_to_mutate.values())
    state = {**program.state_dict, **program.constants}
    placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
    return {
        node: value
        for node, spec in zip(placeholders, signature.input_specs, strict=True)
        if spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
        and spec.target not in mutated
        and isinstance(value := state.get(spec.target), torch.Tensor)
    }


def _attributes(module: GraphModule) -> dict[Node, torch.Tensor]:
    """Returns the values of the attributes that a graph reads."""
    found = {n: attrgetter(n.target)(module) for n in module.graph.nodes if n.op == "get_attr"}
    return {n: value for n, value in found.items() if isinstance(value, torch.Tensor)}


def _with_shapes(module: GraphModule) -> GraphModule:
    """Returns the module if its nodes know their shapes, else one with a copy of the graph, whose nodes do."""
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
    if any(map(_is_dynamic, tree_leaves(node.meta.get("val")))):
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
    # A disabled dropout is impure, but a copy.
    elif node.is_impure() and not is_copy(node):
        raise ProgramError(f"{node.name} ({node.target}) has side effects")


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return not all(isinstance(d, int) for d in value.shape)
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool))


def _is_functional_here(node: Node) -> bool:
    """Tells whether an in-place op acts on a fresh tensor that nothing else reads."""
    x = node.args[0] if node.args else None
    fresh = isinstance(x, Node) and x.op == "call_function" and set(x.users) == {node} and not is_movement(x)
    return fresh and is_inplace(node.target) and functional(node.target) is not None


def _is_guard(node: Node) -> bool:
    """Tells whether the node is the check of inputs with which `ExportedProgram.module()` begins."""
    guards = node.op == "call_module" and node.target == "_guards_fn"
    return guards and all(n.op == "placeholder" for n in node.all_input_nodes)


class Rewriting:
    """A new program: a copy of the source's graph, to which nodes are appended.

    Nodes that the outputs do not need are removed in the end.
    nodes: {node of the source: its copy}; in-place ops are functional in the copy.
    """

    def __init__(self, source: Source):
        self.source, self.graph = source, Graph()
        self.nodes: dict[Node, Node] = {}
        self.new: dict[str, torch.Tensor] = {}
        self.graph.graph_copy(source.graph, self.nodes)
        for old, new in self.nodes.items():
            # FX itself would not give some names, such as `input`.
            new.name = old.name
            new.target = functional(new.target)
        leading = [n for n in source.placeholders if n in source.constants]
        #: New constants follow the lifted ones and precede the user's inputs.
        self._last = self.nodes[leading[-1]] if leading else None

    def call(self, target: Any, *args: Any, meta: Mapping[str, Any] | None = None, **kwargs: Any) -> Node:
        """Appends an op and returns it with its fake value.

        Raises what the op raises on operands that do not fit.
        """
        values, named = torch.fx.node.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.source.fake_mode:
            val = target(*values, **named)
        node = self.graph.call_function(target, args, kwargs)
        node.meta.update({**(meta or {}), "val": val})
        return node

    def copy(self, node: Node, known: Mapping[Node, Node], **changed: Any) -> Node:
        """Appends a copy of a source node and returns it.

        known: new operands by the source's; others are the copies of the source's.
        changed: arguments by name.
        """
        args, kwargs = node.args, dict(node.kwargs)
        if changed:
            given, schema = {**arguments(node), **changed}, overload(node.target)._schema.arguments
            args = tuple(given[a.name] for a in schema if not a.kwarg_only)
            kwargs = {a.name: given[a.name] for a in schema if a.kwarg_only and given[a.name] is not None}
        args, kwargs = torch.fx.node.map_arg((args, kwargs), lambda n: known[n] if n in known else self.nodes[n])
        return self.call(functional(node.target), *args, meta=node.meta, **kwargs)

    def new_constant(self, value: torch.Tensor) -> Node:
        """Adds a constant tensor that the source does not have, and returns its node."""
        target = f"_eqsat_constant_{len(self.new)}"
        self.new[target] = value
        if isinstance(self.source.program, ExportedProgram):
            first = next(iter(self.graph.nodes))
            with self.graph.inserting_after(self._last) if self._last else self.graph.inserting_before(first):
                node = self._last = self.graph.placeholder(f"c_{target}")
        else:
            node = self.graph.get_attr(target)
        # FakeTensor.from_tensor would leave traces of a source in the shape guards.
        with self.source.fake_mode:
            node.meta["val"] = torch.empty(value.shape, dtype=value.dtype)
        return node

    def finish(self, outputs: Sequence[Any]) -> Program:
        """Returns the new program, of the source's kind and signature.

        outputs: in the order of `source.outputs`.
        """
        output = self.graph.output(tree_unflatten(outputs, tree_structure(self.source.graph.output_node().args[0])))
        output.meta.update(self.source.graph.output_node().meta)
        self.graph._codegen = self.source.graph._codegen
        self.graph.eliminate_dead_code(lambda n: n.op in ("placeholder", "output", "call_module"))
        program = self.source.program
        if isinstance(program, GraphModule):
            # The copy shares the tensors.
            root = copy.copy(program)
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

    def _signature(self, program: ExportedProgram, outputs: Sequence[Any]) -> ExportGraphSignature:
        signature: ExportGraphSignature = copy.deepcopy(program.graph_signature)
        placeholders = [n.name for n in self.graph.nodes if n.op == "placeholder"]
        added = {f"c_{t}": InputSpec(InputKind.CONSTANT_TENSOR, TensorArgument(name=f"c_{t}"), t) for t in self.new}
        old = iter(signature.input_specs)
        signature.input_specs = [added[p] if p in added else next(old) for p in placeholders]
        for spec, node in zip(signature.output_specs, outputs, strict=True):
            if not isinstance(spec.arg, ConstantArgument) and isinstance(node, Node):
                spec.arg.name = node.name
        return signature
