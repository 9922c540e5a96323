"""Copies and orders without which Vela compiles a graph wrongly, as its table of defects says
(`eqsat/vela/defects.py`).

A depthwise convolution copies, or a sum (`copying.py`). Without that, choices would be refused one after the other once
they were compiled or their binaries run. What a copy takes is told by Vela's table, so that the next extraction knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from eqsat.choice import copying
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, attrs_of
from eqsat.vela.defects import Copy
from eqsat.vela.patterns import Place


def with_copies(
    graph: TensorGraph, origin: Mapping[int, int], copies: Iterable[Copy]
) -> tuple[TensorGraph, dict[int, int]]:
    """`graph` with such copies, and its origin ({node: choice node}): a copy is of the origin of what it copies.
    Tensors that nothing copies stay."""
    copies, origin = list(copies), dict(origin)
    first = {p[-1]: p[0] for c in copies if c.sliced_first for p in c.places(graph)}
    if first:
        graph, origin = _Anew(graph).sliced_first(first).finished(origin)
    places = [p for c in copies if not c.sliced_first for p in c.places(graph) if copying.can_copy(graph.type(p[0]))]
    return _Anew(graph).copied(places).finished(origin) if places else (graph, origin)


class _Anew:
    """A graph that is made anew. made: {node of the old one: new node}. of: {new node: the one that it stands for}."""

    def __init__(self, graph: TensorGraph) -> None:
        self.graph = graph
        self.out = TensorGraph(output_names=list(graph.output_names))
        self.made, self.of = dict[int, int](), dict[int, int]()

    def sliced_first(self, places: Mapping[int, int]) -> _Anew:
        """With each SLICE in front of the RESCALE that it reads."""
        for n in self._operators():
            if n in places:
                rescale, start = self.graph.nodes[places[n]], self.graph.nodes[n].attr("start")[-1]
                part = self._again(n, [self.made[rescale.inputs[0]]])
                attrs = _with_channels(rescale.attrs, slice(start, start + self.graph.nodes[n].shape[-1]))
                self.made[n] = self._add(places[n], rescale.op, [part], attrs)
            else:
                self.made[n] = self._again(n)
        return self

    def copied(self, places: Sequence[Place]) -> _Anew:
        """With a copy in each place."""
        ways = {p[-1]: p[:-1] for p in places if len(p) > 1}
        for n in self._operators():
            operands = [self.made[i] for i in self.graph.nodes[n].inputs]
            if n in ways:
                operands[0] = self._copy(ways[n][0])
                for k in ways[n][1:]:
                    operands[0] = self._again(k, operands[:1])
            self.made[n] = self._again(n, operands)
        self.made |= {p[0]: self._copy(p[0]) for p in places if len(p) == 1}
        return self

    def finished(self, origin: Mapping[int, int]) -> tuple[TensorGraph, dict[int, int]]:
        """The graph, and the origin of its nodes by that of the old one's."""
        self.out.outputs = [self.made[o] for o in self.graph.outputs]
        live = set(self.out.live())
        return self.out, {k: origin[n] for k, n in self.of.items() if n in origin and k in live}

    def _operators(self) -> Iterator[int]:
        """Those of the old graph in order; inputs and constants are made."""
        for n in self.graph.live():
            node = self.graph.nodes[n]
            if node.op == "input":
                self.made[n] = self.out.add_input(node.attr("name"), node.shape, node.dtype)
            elif node.op == "const":
                self.made[n] = self.out.add_const(node.attr("value").data, node.dtype, node.shape)
            else:
                yield n

    def _again(self, n: int, operands: Sequence[int] | None = None) -> int:
        """An operator of the old graph, on other operands where they are given."""
        node = self.graph.nodes[n]
        return self._add(n, node.op, [self.made[i] for i in node.inputs] if operands is None else operands, node.attrs)

    def _add(self, stands_for: int, op: str, operands: Sequence[int], attrs: Attrs) -> int:
        node = self.out.add_with(op, operands, attrs)
        self.of[node] = stands_for
        return node

    def _copy(self, n: int) -> int:
        first = len(self.out.nodes)
        copy = copying.emit(self.out, self.made[n])
        self.of.update((k, n) for k in range(first, len(self.out.nodes)) if self.out.nodes[k].op != "const")
        return copy


def _with_channels(rescale: Attrs, channels: slice) -> Attrs:
    """The attributes of a RESCALE with a factor per channel, for some of the channels."""
    return attrs_of({k: v[channels] if k in ("multiplier", "shift") else v for k, v in rescale})
