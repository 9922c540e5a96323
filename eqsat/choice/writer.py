"""The TensorGraph of a choice.

A value is made once, and each RESHAPE that its readers need is made from it.
If it is read in several shapes, each shape is viewed from the one before.
Vela copies the value for all of them but the last (`eqsat/choice/storage.py`).
A widening RESCALE is made anew for each reader.
So a sum or product of two of them is written in the shapes for which Vela makes few commands.
Vela fuses the RESCALEs through the views, and nothing is copied.
Sums of INT48 are made anew for each RESCALE, too: Vela does not accept one that two RESCALEs read.
That happens if a convolution without an activation is an operand of a convolution and of a sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cost_models.fusion import SUMS
from eqsat.choice.candidates import Candidate
from eqsat.egraph.encoding import Frozen
from eqsat.target.broadcasts import merge_axes
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Shape
from eqsat.vela import rows

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
