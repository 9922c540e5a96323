"""Which operators of the source the operators of a choice stand for.

An e-class that holds the value of operators of the source has their origins: several, where equal values merged. An operator of the choice
whose value was in the source keeps the origins of its class. Any other one stands for what it is computed instead of: the operators of the source
that lie between the next values behind it and the next ones before it that both graphs have. Of these the ones of its own kind count, if there
are any.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from eqsat.egraph.encoding import Frozen
from eqsat.search.choice import Choices
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tosa.flatbuffer import dumps, tensor_names
from eqsat.tosa.locations import Origins, read, text, union


def of_buffer(buffer: bytes) -> dict[int, Origins]:
    """{node of `loads(buffer)`: its origins}, of a buffer that can be read."""
    located = read(buffer)
    names = tensor_names(buffer) if located else {}
    return {names[tensor]: origins for tensor, origins in located.items() if tensor in names}


def of_choice(
    choices: Choices, graph: TensorGraph, made_for: Mapping[int, int], known: Mapping[int, Origins]
) -> dict[int, Origins]:
    """{operator of the choice's graph: its origins}. made_for: {node: choice node}, as the writer gives it; known: of the source's nodes."""
    frozen, candidates = choices.frozen, choices.candidates
    values = {n: candidates[k].enode.cls for n, k in made_for.items()}
    values |= {n: frozen.handle[i] for n, i in zip(graph.inputs, frozen.source.inputs, strict=True)}
    between = _Between(frozen, known)
    readers = graph.readers()
    out: dict[int, Origins] = {}
    for n in made_for:
        if n not in readers:
            continue
        found = between.of_class(values[n])
        if not found:
            after = _next(n, lambda k: readers[k], values, between.nodes)
            before = _next(n, lambda k: graph.nodes[k].inputs, values, between.nodes)
            found = between.origins(after, before, graph.nodes[n].op)
        if found:
            out[n] = found
    return out


def _next(
    start: int, neighbours: Callable[[int], Sequence[int]], values: Mapping[int, int], known: Collection[int]
) -> set[int]:
    """Classes of the source's values that are met first on the ways from a node."""
    out, seen, stack = set(), {start}, list(neighbours(start))
    while stack:
        n = stack.pop()
        if n in seen:
            continue
        seen.add(n)
        if values.get(n) in known:
            out.add(values[n])
        else:
            stack += neighbours(n)
    return out


class _Between:
    """The source's operators by e-class. nodes: {class: those whose value it holds}."""

    def __init__(self, frozen: Frozen, known: Mapping[int, Origins]) -> None:
        self.source, self.handle, self.known = frozen.source, frozen.handle, known
        self.nodes: dict[int, list[int]] = {}
        for n in self.source.live():
            if self.source.nodes[n].op != "const":
                self.nodes.setdefault(frozen.handle[n], []).append(n)

    def of_class(self, cls: int) -> Origins:
        return self._of(n for n in self.nodes.get(cls, ()) if OPS[self.source.nodes[n].op].kind != "leaf")

    def _of(self, nodes: Iterable[int]) -> Origins:
        return union(self.known[n] for n in nodes if n in self.known)

    def origins(self, after: Collection[int], before: Collection[int], op: str) -> Origins:
        """Of the operators from the classes `after` back to the classes `before`, which are not among them."""
        found: list[int] = []
        stack, seen = [n for c in after for n in self.nodes[c]], set[int]()
        while stack:
            n = stack.pop()
            if n in seen or self.handle[n] in before:
                continue
            seen.add(n)
            found.append(n)
            stack += self.source.nodes[n].inputs
        found.sort()
        alike = self._of(n for n in found if self.source.nodes[n].op == op)
        return alike or self._of(found) or union(self.of_class(c) for c in sorted(before))


def located(buffer: bytes, graph: TensorGraph, origins: Mapping[int, Origins]) -> bytes:
    """`buffer`, which `dumps(graph)` gave, with the origins of its operators as their locations."""
    return dumps(graph, {n: text(o) for n, o in origins.items()}) if origins and dumps(graph) == buffer else buffer
