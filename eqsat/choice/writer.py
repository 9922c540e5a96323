"""The TensorGraph of a choice.

A value is made once. If it is read in several shapes, each shape is viewed from the one before, and Vela copies the
value for all of them but the last (`candidates.py`).
A widening RESCALE is made anew for each reader. So a sum or product of two of them is written in the shapes for which
Vela makes few commands: it fuses the RESCALEs through the views, and copies nothing.
Sums of INT48 are made anew for each RESCALE, too: Vela does not accept one that two RESCALEs read.
That happens if a convolution without an activation is an operand of a convolution and of a sum.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from cost_models.fusion import SUMS
from eqsat.choice.candidates import Candidate
from eqsat.egraph.encoding import Frozen
from eqsat.target.staging import merge_axes
from eqsat.tensor import makers
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.types import DType, Shape, Type
from eqsat.vela import rows
from eqsat.vela.defects import Copy
from eqsat.vela.patterns import Place

#: A graph, and {node: the choice node that it is written for}.
Written = tuple[TensorGraph, dict[int, int]]
#: An operand: the class of a value, the shape, and the choice node that the view is written for.
Read = tuple[int, Shape, int]


class GraphWriter:
    """Writes the graph of a choice, with the source's inputs and outputs in order."""

    def __init__(
        self,
        frozen: Frozen,
        classes: Sequence[int],
        candidates: Sequence[Candidate],
        last_shapes: Mapping[int, Shape],
        choice: Mapping[int, int],
    ) -> None:
        """choice: {position in `classes`: number of a candidate}.

        last_shapes: {position: the last shape in which its value is viewed}.
        """
        self.frozen, self.classes, self.last_shapes, self.choice = frozen, classes, last_shapes, choice
        self.candidates = candidates
        self.source = frozen.source
        self.graph = TensorGraph(output_names=list(self.source.output_names))
        self.origin: dict[int, int] = {}
        position = {c: i for i, c in enumerate(classes)}
        # {class of a value: its node}
        self.made: dict[int, int] = {}
        for i in self.source.inputs:
            t, name = self.source.type(i), self.source.nodes[i].attr("name")
            self.made[position[frozen.handle[i]]] = self.graph.add_input(name, t.shape, t.dtype)
        self.roots = [position[frozen.handle[o]] for o in self.source.outputs]
        # {class of a value: {shape in which it is read: choice node that its view is written for}}
        self.wanted: dict[int, dict[Shape, int]] = {}
        # {(class of a value, shape in which it is read): node}
        self.views: dict[tuple[int, Shape], int] = {}

    def write(self) -> Written:
        outputs = [self._read_of(self.choice[c], c) for c in self.roots]
        self._find_shapes(outputs)
        stack = [value for value, _, _ in reversed(outputs)]
        while stack:
            cls = stack[-1]
            missing = [] if cls in self.made else [v for v, _, _ in self._reads(self.choice[cls]) if v not in self.made]
            if missing:
                stack.extend(missing)
                continue
            stack.pop()
            if cls not in self.made:
                self.made[cls] = self._emit(cls)
        self.graph.outputs = [self._node(read) for read in outputs]
        return self.graph, self.origin

    def _find_shapes(self, outputs: Sequence[Read]) -> None:
        """Fills in `wanted`; of several readers in one shape the last output counts, or else the first operator."""
        for value, shape, n in outputs:
            self.wanted.setdefault(value, {})[shape] = n
        queue = list(self.wanted)
        for cls in queue:
            for value, shape, n in self._reads(self.choice[cls]):
                if value not in self.wanted:
                    queue.append(value)
                self.wanted.setdefault(value, {}).setdefault(shape, n)

    def _find_chosen(self, cls: int) -> Candidate:
        return self.candidates[self.choice[cls]]

    def _shape(self, cls: int) -> Shape:
        return self.frozen.type_of(self.classes[cls]).shape

    def _value(self, cls: int) -> int:
        """Returns the class whose value `cls` is a view of."""
        while self._find_chosen(cls).is_view:
            cls = self._find_chosen(cls).operands[0]
        return cls

    def _read_of(self, n: int, cls: int) -> Read:
        return self._value(cls), self._shape(cls), n

    def _reads(self, n: int) -> list[Read]:
        """Returns the reads of a candidate's operands; one that begins with a view has that view for itself."""
        candidate = self.candidates[n]
        if candidate.viewed_first:
            return [(self._value(c), candidate.viewed_first, n) for c in candidate.operands]
        if shapes := self._merge_axes(candidate):
            return [(self._value(c), s, n) for c, s in zip(candidate.operands, shapes, strict=True)]
        return [self._read_of(n if self._value(c) == c else self.choice[c], c) for c in candidate.operands]

    def _merge_axes(self, candidate: Candidate) -> list[Shape] | None:
        """Returns shapes of the operands with which a candidate takes fewer commands and nothing more, or None."""
        read = [self._find_chosen(self._value(c)) for c in candidate.operands]
        alone = all(c.is_widening or c.enode.op == "const" for c in read)
        if not alone or candidate.enode.op not in SUMS:
            return None
        return merge_axes([self._shape(c) for c in candidate.operands])

    def _emit(self, cls: int) -> int:
        """Writes the operators of a class whose operands are written, and returns the node of its value."""
        n = self.choice[cls]
        candidate = self.candidates[n]
        if candidate.enode.op == "const":
            t = self.frozen.type_of(candidate.enode.cls)
            return self.graph.add_const(dict(candidate.enode.attrs)["value"].data, t.dtype, t.shape)
        nodes = [self._node(read) for read in self._reads(n)]
        before = len(self.graph.nodes)
        for op, attrs in candidate.steps[1 if candidate.viewed_first else 0 :]:
            nodes = [rows.write(self.graph, op, nodes, attrs)]
        made = range(before, len(self.graph.nodes))
        self.origin.update({k: n for k in made if self.graph.nodes[k].op != "const"})
        return self._reshape(nodes[0], self._shape(cls), n)

    def _node(self, read: Read) -> int:
        """Returns the node of a value in a shape; each view is made of the one before."""
        cls, shape, n = read
        if self._find_chosen(cls).is_widening or self._is_only_rescaled(cls):
            return self._reshape(self._emit(cls), shape, n)
        if (cls, shape) not in self.views:
            node, last, own = self.made[cls], self.last_shapes.get(cls), self._shape(cls)
            for s, view in sorted(self.wanted[cls].items(), key=lambda item: (item[0] == last, item[0] != own)):
                node = self.views[cls, s] = self._reshape(node, s, view)
        return self.views[cls, shape]

    def _is_only_rescaled(self, cls: int) -> bool:
        """Whether the values of a class are sums of products that only a RESCALE may read."""
        dtype = DType.of(self.frozen.type_of(self.classes[cls]).dtype)
        return dtype.only_rescaled and self._find_chosen(cls).enode.op != "const"

    def _reshape(self, node: int, shape: Shape, n: int) -> int:
        if self.graph.nodes[node].shape != shape:
            node = self.graph.add("reshape", [node], shape=shape)
            self.origin[node] = n
        return node


# Copies of tensors, also those without which Vela compiles a graph wrongly (`eqsat/vela/defects.py`).
#
# A copy is a 1x1 depthwise convolution with weights of one, or an ADD of zero for INT32. Against some defects, a TABLE
# that Vela fuses into the operator before it is enough.
# Without needed copies, choices would be refused one by one, after compilation or a run of their binary.
# A copy's cycles are in Vela's table, which corrects the prices of the next extraction.


def can_copy(t: Type) -> bool:
    """Whether `write_copy` can copy a tensor: INT32, or one image of INT8."""
    return t.dtype == "INT32" or t.dtype == "INT8" and len(t.shape) <= 4 and (1, 1, 1, 1, *t.shape)[-4] == 1


def write_copy(graph: TensorGraph, node: int) -> int:
    """Adds a copy of a node to a graph, and returns its node."""
    t = graph.type(node)
    if t.dtype == "INT32":
        shape = (1,) * len(t.shape)
        return graph.add("add", [node, graph.add_const(np.zeros(shape, np.int32), "INT32", shape)])
    if len(t.shape) < 4:
        copy = write_copy(graph, graph.add("reshape", [node], shape=(1,) * (4 - len(t.shape)) + t.shape))
        return graph.add("reshape", [copy], shape=t.shape)
    channels = t.shape[3]
    weights = graph.add_const(np.ones((1, 1, channels, 1), np.int8), "INT8")
    bias = graph.add_const(np.zeros(channels, np.int32), "INT32")
    copy = graph.add_with("depthwise_conv2d", [node, weights, bias], makers.conv("INT8"))
    return graph.add_with("rescale", [copy], makers.by_one("INT8"))


def with_needed_copies(
    graph: TensorGraph, origin: Mapping[int, int], copies: Iterable[Copy]
) -> tuple[TensorGraph, dict[int, int]]:
    """Returns `graph` with the needed copies of what can be copied, and {node: choice node}.

    origin: {node of `graph`: choice node}; a copy has that of the copied node.
    """
    copies = list(copies)
    if tabled := {p[0] for c in copies if c.by_table for p in c.places(graph) if graph.nodes[p[0]].dtype == "INT8"}:
        out = graph.rewrite({n: partial(_write_table, graph, n) for n in tabled})
        graph, origin = out.graph, _origin(out, origin)
    places = [p for c in copies if not c.by_table for p in c.places(graph) if can_copy(graph.type(p[0]))]
    if not places:
        return graph, dict(origin)
    ending: dict[int, list[Place]] = {}
    for p in places:
        if len(p) > 1:
            ending.setdefault(p[-1], []).append(p)
    out = graph.rewrite({last: partial(_of_copies, graph, found) for last, found in ending.items()})
    copied = {p[0]: _copy(p[0], out) for p in places if len(p) == 1}
    out.graph.outputs = [copied.get(o, out.number[o]) for o in graph.outputs]
    return out.graph, _origin(out, origin)


def _origin(out: Rewritten, origin: Mapping[int, int]) -> dict[int, int]:
    """Returns {new operator: choice node}, from the nodes that the operators were written for."""
    nodes = out.graph.nodes
    operators = ((k, out.source[k]) for k in out.graph.live() if nodes[k].op not in ("input", "const"))
    return {k: origin[n] for k, n in operators if n in origin}


def _write_table(graph: TensorGraph, n: int, out: Rewritten) -> int:
    """Writes a node with a TABLE behind it that leaves every value as it is, and returns the TABLE's node."""
    node = graph.nodes[n]
    made = out.graph.add_copy(node, [out.number[i] for i in node.inputs])
    table = out.graph.add_with("table", [made], makers.table(range(-128, 128)))
    out.source[made] = out.source[table] = n
    return table


def _of_copies(graph: TensorGraph, places: Sequence[Place], out: Rewritten) -> int:
    """Writes the last operator of all places on copies of their first nodes, and returns its node."""
    number = dict(out.number)
    for copied, *others in places:
        number[copied] = _copy(copied, out)
        for n in others[:-1]:
            node = graph.nodes[n]
            number[n] = out.graph.add_copy(node, [number[i] for i in node.inputs])
            out.source[number[n]] = n
    last = graph.nodes[places[0][-1]]
    return out.graph.add_copy(last, [number[i] for i in last.inputs])


def _copy(n: int, out: Rewritten) -> int:
    first = len(out.graph.nodes)
    copy = write_copy(out.graph, out.number[n])
    out.source.update(dict.fromkeys(range(first, len(out.graph.nodes)), n))
    return copy
