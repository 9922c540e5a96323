"""The operators of the source that each operator of a choice stands for.

The e-class of a value in the source has the source's operators that compute it, several if equal values merged.
An operator of the choice gets the origins of those of its own kind in its e-class.
If there are none, the operator was moved or is written differently.
Then it stands for source operators between the nearest values on both sides that both graphs have: those of its kind if
there are some, then those that compute its own value, then all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, tensor_names
from eqsat.tosa.locations import Origins, read, text, union
from eqsat.vela.table import Row

#: Operators of one kind, since rules write them as each other; the first one names the kind.
_ALIKE = (
    ("transpose", "reshape"),
    ("conv2d", "depthwise_conv2d", "transpose_conv2d", "matmul"),
    ("slice", "pad", "concat", "tile"),
)


def of_buffer(buffer: bytes) -> dict[int, Origins]:
    """Returns {node of `loads(buffer)`: its origins}."""
    located = read(buffer)
    names = tensor_names(buffer) if located else {}
    return {names[tensor]: origins for tensor, origins in located.items() if tensor in names}


def of_choice(
    choices: Choices, graph: TensorGraph, made_for: Mapping[int, int], known: Mapping[int, Origins]
) -> dict[int, Origins]:
    """Returns {operator of a choice's graph: its origins}. made_for: {node: choice node}. known: of the source."""
    frozen, candidates = choices.frozen, choices.candidates
    values = {n: candidates[k].enode.cls for n, k in made_for.items()}
    values |= {n: frozen.handle[i] for n, i in zip(graph.inputs, frozen.source.inputs, strict=True)}
    source = _Source(frozen, known)
    readers = graph.readers()
    out: dict[int, Origins] = {}
    for n in (n for n in made_for if n in readers):
        kind, cls = _kind(graph.nodes[n].op), values[n]
        found = source.origins(source.nodes.get(cls, ()), kind)
        if not found:
            after = {cls} if cls in source.nodes else _next(n, lambda k: readers[k], values, source.nodes)
            before = _next(n, lambda k: graph.nodes[k].inputs, values, source.nodes)
            between = source.find_between(before, after)
            found = (
                source.origins(between, kind)
                or source.origins(source.nodes.get(cls, ()))
                or source.origins(between)
                or source.origins([k for c in sorted(after or before) for k in source.nodes[c]])
            )
        if found:
            out[n] = found
    return out


def _kind(op: str) -> str:
    return next((kinds[0] for kinds in _ALIKE if op in kinds), op)


def _next(
    start: int, neighbours: Callable[[int], Sequence[int]], values: Mapping[int, int], known: Collection[int]
) -> set[int]:
    """Returns the classes of the source's values that are nearest on the paths from a node."""

    def is_known(n: int) -> bool:
        return values.get(n) in known

    passed = [start, *_reach(neighbours(start), neighbours, is_known)]
    return {values[k] for n in passed for k in neighbours(n) if is_known(k)}


def _reach(starts: Iterable[int], neighbours: Callable[[int], Sequence[int]], ends: Callable[[int], bool]) -> set[int]:
    """Returns the nodes on the paths from some nodes, each up to a node at which it ends."""
    seen, stack = set[int](), list(starts)
    while stack:
        n = stack.pop()
        if n not in seen and not ends(n):
            seen.add(n)
            stack += neighbours(n)
    return seen


class _Source:
    """The source's operators and inputs by e-class (`nodes`), and their known origins."""

    def __init__(self, frozen: Frozen, known: Mapping[int, Origins]) -> None:
        self.graph, self.handle, self.known = frozen.source, frozen.handle, known
        self.readers = self.graph.readers()
        self.nodes: dict[int, list[int]] = {}
        for n in self.readers:
            if self.graph.nodes[n].op != "const":
                self.nodes.setdefault(self.handle[n], []).append(n)

    def origins(self, nodes: Iterable[int], kind: str = "") -> Origins:
        """Returns the origins of nodes, only of one kind if it is given."""
        return union(self.known[n] for n in nodes if n in self.known and kind in ("", _kind(self.graph.nodes[n].op)))

    def find_between(self, before: Collection[int], after: Collection[int]) -> list[int]:
        """Returns the nodes on the paths from the classes `before` to the classes `after`, without those of `before`.

        If `before` is empty, returns the nodes on paths to `after` that depend on constants alone.
        """

        def ends(n: int) -> bool:
            return self.handle[n] in before and self.handle[n] not in after

        back = _reach([n for c in after for n in self.nodes[c]], lambda n: self.graph.nodes[n].inputs, ends)
        starts = [r for c in before for n in self.nodes[c] for r in self.readers[n]] or self.graph.inputs
        forth = _reach(starts, lambda n: self.readers[n], lambda n: bool(before) and n not in back)
        return sorted(back & forth if before else back - forth)


def with_locations(best: Compiled, explicit: bytes, made_of: Mapping[int, int] | None = None) -> bytes:
    """Returns the flatbuffer of a compiled graph with the origins of its operators.

    They are known if the operators of `explicit` have locations.
    made_of: {node of the e-graph's source: node of `explicit`} if they differ.
    It is an equal graph: Vela and the reference model ignore locations.
    """
    known = of_buffer(explicit)
    if made_of is not None:
        known = {n: known[k] for n, k in made_of.items() if k in known}
    if best.choices is None or not known:
        return best.tosa
    found = of_choice(best.choices, *best.choices.tensor_graph(best.choice), known)
    parts_of = best.parts_of or {n: n for n in found}
    return dumps(best.graph, {n: text(found[k]) for n, k in parts_of.items() if k in found})


def table(tosa: bytes, rows: Iterable[Row]) -> list[Row]:
    """Returns Vela's table of a flatbuffer, with the origins of the operator behind each row."""
    located = read(tosa)
    return [replace(row, origins=located.get(row.source, ())) for row in rows]
