"""Each fused group of a concrete graph (`groups.py`) with its real neighbours, to be compiled.

A group's window adds the ops within two reads.
If a window cuts a tensor, a pad takes the place of the rest.
A pad is a CLAMP with a second reader, which cannot fuse and has the format of inner tensors.
INT32 and INT48 values are never cut: Vela fuses the RESCALEs around them, and no CLAMP takes them.
There is no pad before the first op of the graph, since Vela would fetch its weights meanwhile.

Only the rows of Vela's table that come from the group's own ops count.
So the windows of a graph add up to its total.
A window cannot show decisions over longer distances, which matter on U65:
- which tensors share the SRAM;
- when weights are fetched ahead.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from cost_models.groups import groups
from cost_models.pads import add_pad, add_stop, has_pad
from eqsat.target import Family
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const
from eqsat.tosa.flatbuffer import dumps

#: Reads between a group and the edge of its window.
RADIUS = 2


def _reorderable(graph: TensorGraph, readers: Mapping[int, list[int]], n: int) -> bool:
    """Whether `n` is a RESHAPE that only adds or drops unit axes, and its only reader is a TRANSPOSE."""
    node = graph.nodes[n]
    if node.op != "reshape" or n in graph.outputs or [graph.nodes[r].op for r in readers[n]] != ["transpose"]:
        return False
    return [d for d in node.shape if d > 1] == [d for d in graph.nodes[node.inputs[0]].shape if d > 1]


def reordered(graph: TensorGraph) -> set[int]:
    """Returns the reshapes that Vela moves after the transpose that reads them.

    Vela walks from the outputs to the producers and stops at a reshape that it moved.
    (graph_optimiser.hpp, RewriteGraph: the transpose in front has been visited.)
    So it moves only the last ones of a graph, and in a window it must not move more.
    """
    readers, moved, seen = graph.readers(), set(), set()
    stack = list(graph.outputs)
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if _reorderable(graph, readers, n):
            moved.add(n)
        else:
            stack.extend(graph.nodes[n].inputs)
    return moved


@dataclass(frozen=True, slots=True)
class Window:
    """A group with its surroundings, as nodes of the whole graph.

    group: the nodes of the group
    nodes: the nodes of the window, the group included
    stops: nodes through which Vela must not come to reorder movements
    key  : equal for windows of equal cost
    """

    group: tuple[int, ...]
    nodes: tuple[int, ...]
    stops: frozenset[int]
    key: str


class Windows:
    """The windows of one graph."""

    def __init__(self, graph: TensorGraph, family: Family):
        self.graph, self.readers = graph, graph.readers()
        self.outputs = set(graph.outputs)
        self._digests: dict[int, bytes] = {}
        self._moved = reordered(graph)
        self._first = next((n for n in graph.live() if OPS[graph.nodes[n].op].kind != "leaf"), -1)
        self._kept = {n for n in self.readers if n not in self._moved and _reorderable(graph, self.readers, n)}
        self.all = [self._window(g) for g in groups(graph, family)]

    def _window(self, group: Sequence[int]) -> Window:
        nodes = self._surroundings(group)
        if self._first in nodes:
            nodes = self._without_pads(nodes, set(group))
        number = {n: k for k, n in enumerate(nodes)}
        own = set(group)
        key = hashlib.blake2b(digest_size=16)
        for n in nodes:
            for i in self.graph.nodes[n].inputs:
                if i not in number:
                    number[i] = len(number)
                    key.update(
                        self._digest(i) if self.graph.nodes[i].op == "const" else repr(self.graph.type(i)).encode()
                    )
            refs = [number[i] for i in self.graph.nodes[n].inputs]
            cut = any(r not in number for r in self.readers[n])
            key.update(self._digest(n) + repr((refs, n in own, cut, n in self.outputs)).encode())
        stops = (
            frozenset(n for n in nodes if self._leads_to_kept(n, number))
            if not self._kept.isdisjoint(nodes)
            else frozenset()
        )
        key.update(repr(sorted(number[n] for n in stops)).encode())
        return Window(tuple(group), nodes, stops, key.hexdigest())

    def _leads_to_kept(self, n: int, inside: Mapping[int, int]) -> bool:
        """Whether a walk from `n` to the producers, up to reshapes that are moved, meets one that stays."""
        seen, stack = {n}, [n]
        while stack:
            k = stack.pop()
            if k in self._kept:
                return True
            if k not in self._moved or self.readers[k][0] not in inside:
                new = [i for i in self.graph.nodes[k].inputs if i in inside and i not in seen]
                seen.update(new)
                stack += new
        return False

    def _digest(self, n: int) -> bytes:
        if n not in self._digests:
            node = self.graph.nodes[n]
            attrs = () if node.op == "input" else [(k, v.digest if isinstance(v, Const) else v) for k, v in node.attrs]
            self._digests[n] = hashlib.blake2b(
                repr((node.op, attrs, node.shape, node.dtype)).encode(), digest_size=16
            ).digest()
        return self._digests[n]

    def _surroundings(self, group: Sequence[int]) -> tuple[int, ...]:
        seen, edge = set(group), self._whole(list(group), set(group))
        seen.update(edge)
        for _ in range(RADIUS):
            ring = [k for n in edge for k, _ in self._neighbours(n) if k not in seen]
            edge = self._whole(list(dict.fromkeys(ring)), seen)
            seen.update(edge)
        return tuple(sorted(seen))

    def _whole(self, edge: list[int], seen: set[int]) -> list[int]:
        """Returns `edge` and all nodes joined to it by tensors that must not be cut."""
        out, known = list(edge), {*seen, *edge}
        for n in out:
            for k, tensor in self._neighbours(n):
                if k not in known and not self._can_be_cut(tensor):
                    known.add(k)
                    out.append(k)
        return out

    def _without_pads(self, nodes: Sequence[int], group: Set[int]) -> tuple[int, ...]:
        """Returns the nodes of a window that needs no pads before its group.

        Nodes that the group does not need are dropped if they read values from outside.
        Nodes that must not be cut from dropped ones are dropped, too.
        """
        needed, dropped = set(group), {-1}
        for n in reversed(nodes):
            if n in needed:
                needed.update(self.graph.nodes[n].inputs)
        kept = set(nodes)
        while dropped:
            dropped = {n for n in kept - needed if self._reads_outside(n, kept) or self._cut_off(n, kept)}
            kept -= dropped
        return tuple(n for n in nodes if n in kept)

    def _reads_outside(self, n: int, kept: Set[int]) -> bool:
        return any(
            i not in kept and self.graph.nodes[i].op not in ("const", "input") for i in self.graph.nodes[n].inputs
        )

    def _cut_off(self, n: int, kept: Set[int]) -> bool:
        return not self._can_be_cut(n) and n not in self.outputs and any(r not in kept for r in self.readers[n])

    def _neighbours(self, n: int) -> Iterator[tuple[int, int]]:
        """Yields (node, tensor between) for the producers and readers of `n`, without constants."""
        yield from ((i, i) for i in self.graph.nodes[n].inputs if self.graph.nodes[i].op != "const")
        yield from ((r, n) for r in self.readers[n])

    def _can_be_cut(self, tensor: int) -> bool:
        return has_pad(self.graph.type(tensor)) and self.graph.nodes[tensor].op != "opaque"

    def probe(self, window: Window) -> tuple[bytes, frozenset[str]]:
        """Returns the window as a flatbuffer, and the names of the results of its group's ops."""
        copy = _Copy(self.graph)
        for n in window.nodes:
            copy.add(n)
        results: list[int] = []
        for n in window.nodes:
            if self.graph.nodes[n].op != "input" and self._is_read_outside(n, window):
                results += self._ends(copy, n, window)
        names = copy.finish(results)
        return dumps(copy.out), frozenset(names.get(copy.number[n], f"n{copy.number[n]}") for n in window.group)

    def _is_read_outside(self, n: int, window: Window) -> bool:
        return n in self.outputs or any(r not in window.nodes for r in self.readers[n])

    def _ends(self, copy: _Copy, n: int, window: Window) -> list[int]:
        """Returns the outputs that stand for the readers of `n` outside of the window, with pads if possible."""
        x = copy.number[n]
        if n in self.outputs or not has_pad(self.graph.type(n)):
            return [x]
        pads = [add_pad(copy.out, x, 1), add_pad(copy.out, x, 2)]
        return [add_stop(copy.out, p) for p in pads] if n in window.stops else pads


class _Copy:
    """A copy of nodes of a graph, with pads for the tensors that they read from outside.

    out   : the graph of the copies
    number: {node of the graph: its node in `out`}
    """

    def __init__(self, graph: TensorGraph):
        self.graph, self.out = graph, TensorGraph()
        self.number: dict[int, int] = {}
        self._second_pads: list[int] = []

    def add(self, n: int) -> None:
        node = self.graph.nodes[n]
        for i in node.inputs:
            if i not in self.number:
                self.number[i] = self._added(i)
        operands = [self.number[i] for i in node.inputs]
        self.number[n] = self._added(n) if node.op == "input" else self.out.add_with(node.op, operands, node.attrs)

    def _added(self, n: int) -> int:
        """Adds the value of `n` as a constant or input, with a pad if it can have one."""
        node = self.graph.nodes[n]
        if node.op == "const":
            return self.out.add_copy(node, ())
        x = self.out.add_input(f"in{len(self.out.inputs)}", node.shape, node.dtype)
        if node.op != "input" and has_pad(self.graph.type(n)):
            x = add_pad(self.out, x, 1)
            self._second_pads.append(add_pad(self.out, x, 2))
        return x

    def finish(self, results: list[int]) -> dict[int, str]:
        """Sets the outputs and returns {node: output name}."""
        self.out.outputs = results + self._second_pads
        self.out.output_names = [f"out{i}" for i in range(len(self.out.outputs))]
        return dict(zip(self.out.outputs, self.out.output_names, strict=True))
