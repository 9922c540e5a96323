"""A concrete graph cut into fused groups, and each group compiled with its real neighbours.

A group is what Vela may make one operator, or one chain of operators on U85, of; its window adds the ops within two reads.
Where a window cuts a tensor, a CLAMP with a second reader stands in, which cannot fuse and has the inner format of tensors.
INT32 and INT48 values are never cut: Vela fuses the RESCALEs around them, and has no CLAMP for them. Of Vela's table only the rows
that come from the group's own ops count, so the windows of a graph add up to its total. What they cannot show are
decisions over longer distances: which tensors share the SRAM, and when weights are fetched ahead (both matter on U65).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from networkx.utils import UnionFind

from cost_models.unit_graph import through_views
from eqsat.target import Family
from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const
from eqsat.tosa.flatbuffer import dumps

#: Reads between a group and the edge of its window.
RADIUS = 2
#: Ops in one group: a longer chain is cut.
_LARGEST = 64
_FUSING = ("rescale", "clamp", "table", "reshape")


def add_pad(graph: TensorGraph, x: int, cut: int) -> int:
    """A CLAMP that cannot be told to be a no-op; `cut` tells two pads of one tensor apart."""
    dtype = graph.nodes[x].dtype
    return graph.add_with("clamp", [x], makers.clamp(dtype, high=DType.of(dtype).limits[1] - cut))


def add_stop(graph: TensorGraph, x: int) -> int:
    """A movement behind `x` at which Vela's reordering of reshapes before transposes ends (see `reordered`); x itself if it is too small."""
    elements = graph.type(x).elements
    first = next((d for d in (2, 3, 5, 7, 11, 13) if elements % d == 0 and elements > d), None)
    if first is None:
        return x
    y = graph.add("reshape", [x], shape=(1, first, elements // first))
    return graph.add(
        "transpose", [graph.add("reshape", [y], shape=(1, 1, first, elements // first))], perms=(0, 1, 3, 2)
    )


def _reorderable(graph: TensorGraph, readers: Mapping[int, list[int]], n: int) -> bool:
    """A RESHAPE of unit axes whose only reader is a TRANSPOSE."""
    node = graph.nodes[n]
    if node.op != "reshape" or n in graph.outputs or [graph.nodes[r].op for r in readers[n]] != ["transpose"]:
        return False
    return [d for d in node.shape if d > 1] == [d for d in graph.nodes[node.inputs[0]].shape if d > 1]


def reordered(graph: TensorGraph) -> set[int]:
    """The reshapes that Vela 5.1 moves behind the transpose that reads them.

    It walks from the outputs to the producers and does not go on beyond one that it moved (graph_optimiser.hpp, RewriteGraph: the
    transpose in front has been visited), so only the last ones of a graph are, and a window must not show more.
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


def groups(graph: TensorGraph, family: Family) -> list[list[int]]:
    """The live ops of `graph` in sets that may fuse, each in topological order.

    RESCALE, CLAMP, TABLE, RESHAPE (and TRANSPOSE where it fuses) join the producer that only they read; a widening RESCALE joins its reader;
    transposes with nothing but reshapes between them are one movement to Vela; elementwise ops of one shape may chain.
    """
    readers = graph.readers()
    sets = UnionFind(n for n in readers if OPS[graph.nodes[n].op].kind != "leaf")
    for n in sets:
        node = graph.nodes[n]
        for i in node.inputs:
            if i not in sets.parents or len(set(readers[i])) > 1:
                continue
            source = graph.nodes[i]
            fuses = (
                node.op in _FUSING
                or node.op == "transpose"
                and (family.transposes.fused or _moved_before(graph, readers, i))
            )
            chains = (
                family.chained
                and OPS[node.op].kind == OPS[source.op].kind == "pointwise"
                and node.shape == source.shape
            )
            if fuses or chains or source.op == "rescale" and not DType.of(source.dtype).is_activation:
                _join(sets, n, i)
    return sorted(sorted(members) for members in sets.to_sets())


def _join(sets: UnionFind, a: int, b: int) -> None:
    """Unless the group would be longer than the longest."""
    if sets[a] != sets[b] and sets.weights[sets[a]] + sets.weights[sets[b]] <= _LARGEST:
        sets.union(a, b)


def _moved_before(graph: TensorGraph, readers: Mapping[int, list[int]], n: int) -> bool:
    """Whether `n` is a transpose, or a view of one, that nothing else reads."""
    n = through_views(graph, readers, n)
    return graph.nodes[n].op == "transpose" and len(readers[n]) == 1


@dataclass(frozen=True, slots=True)
class Window:
    """A group with its surroundings, as nodes of the whole graph. stops: those through which Vela must not come to reorder movements.
    key: equal for windows that cost the same."""

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
        moved = reordered(graph)
        self._moved, self._kept = (
            moved,
            {n for n in self.readers if n not in moved and _reorderable(graph, self.readers, n)},
        )
        self.all = [self._window(g) for g in groups(graph, family)]

    def _window(self, group: Sequence[int]) -> Window:
        nodes = self._surroundings(group)
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
        """Whether a walk from `n` to the producers meets a reshape that stays before one that is moved."""
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
        """`edge` and what hangs on it by tensors that must not be cut."""
        out, known = list(edge), {*seen, *edge}
        for n in out:
            for k, tensor in self._neighbours(n):
                if k not in known and (
                    not DType.of(self.graph.nodes[tensor].dtype).is_activation
                    or self.graph.nodes[tensor].op == "opaque"
                ):
                    known.add(k)
                    out.append(k)
        return out

    def _neighbours(self, n: int) -> Iterator[tuple[int, int]]:
        """(node, tensor between) for the producers and readers of `n`, constants left out."""
        yield from ((i, i) for i in self.graph.nodes[n].inputs if self.graph.nodes[i].op != "const")
        yield from ((r, n) for r in self.readers[n])

    def probe(self, window: Window) -> tuple[bytes, frozenset[str]]:
        """The window as a flatbuffer, and the names of the tensors that its group's ops yield."""
        out, number, seconds, results = TensorGraph(), {}, [], []
        inside = set(window.nodes)

        def take(n: int) -> int:
            node = self.graph.nodes[n]
            if node.op == "const":
                return out.add_const(node.attr("value").data, node.dtype, node.shape)
            x = out.add_input(f"in{len(out.inputs)}", node.shape, node.dtype)
            if node.op != "input" and DType.of(node.dtype).is_activation:
                x = add_pad(out, x, 1)
                seconds.append(add_pad(out, x, 2))
            return x

        for n in window.nodes:
            node = self.graph.nodes[n]
            for i in node.inputs:
                if i not in number:
                    number[i] = take(i)
            number[n] = (
                take(n) if node.op == "input" else out.add_with(node.op, [number[i] for i in node.inputs], node.attrs)
            )
        for n in window.nodes:
            node = self.graph.nodes[n]
            if node.op == "input" or n not in self.outputs and all(r in inside for r in self.readers[n]):
                continue
            cut = n not in self.outputs and DType.of(node.dtype).is_activation
            ends = [add_pad(out, number[n], 1), add_pad(out, number[n], 2)] if cut else [number[n]]
            results += [add_stop(out, e) for e in ends] if cut and n in window.stops else ends
        out.outputs = results + seconds
        out.output_names = [f"out{i}" for i in range(len(out.outputs))]
        named = dict(zip(out.outputs, out.output_names, strict=True))
        return dumps(out), frozenset(named.get(number[n], f"n{number[n]}") for n in window.group)


def group_cycles(rows: Sequence[Mapping], names: frozenset[str]) -> float:
    """Cycles of the rows of Vela's table that come from the ops which yield `names`."""
    return float(sum(int(r["op_cycles"]) for r in rows if r["source"] in names))
