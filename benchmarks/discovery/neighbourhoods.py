"""Neighbourhoods: a few connected operators of a real graph, as graphs of their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.device.shrink import fragment
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.ops import OPS

#: Elements of all tensors of a neighbourhood together, at most, as each is evaluated often.
MOST_ELEMENTS = 1 << 21
#: Connected sets that are examined per operator, at most.
_MOST_SETS = 200
#: Attributes of a quantization, in which neighbourhoods of one form may differ.
_QUANTIZATION = frozenset({"multiplier", "shift", "in_zp", "out_zp", "w_zp", "table", "min_val", "max_val"})


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """Operators of a graph with their constants.

    graph: these operators alone; it reads and gives quantized activations and has one output.
    nodes: their numbers in the graph that they were cut from.
    reads: numbers there of the inputs of `graph`.
    places: how often their form occurs there.
    """

    graph: TensorGraph
    nodes: tuple[int, ...]
    reads: tuple[int, ...] = ()
    places: int = 1

    @property
    def operators(self) -> str:
        """The names of the operators in order, for people."""
        return " ".join(self.graph.nodes[n].op for n in operators(self.graph))


def operators(graph: TensorGraph) -> list[int]:
    """Returns the numbers of the live nodes that are not leaves, in order."""
    return [n for n in graph.live() if OPS[graph.nodes[n].op].kind != "leaf"]


def neighbourhoods(graph: TensorGraph, least: int = 2, most: int = 5) -> list[Neighbourhood]:
    """Returns one neighbourhood for each form, the most frequent forms first.

    A neighbourhood is connected and has one result.
    It contains each operator between two of its own.
    The tensors at its border are quantized activations.
    least, most: number of operators.
    """
    readers = graph.readers()
    found: dict[Any, Neighbourhood] = {}
    seen: set[frozenset[int]] = set()
    for start in operators(graph):
        for chosen in _connected(graph, readers, start, most):
            if len(chosen) < least or chosen in seen:
                continue
            seen.add(chosen)
            part = _cut(graph, readers, sorted(chosen))
            if part is not None:
                form = _form(part.graph)
                known = found.get(form)
                found[form] = replace(known, places=known.places + 1) if known else part
    return sorted(found.values(), key=lambda n: -n.places)


def _connected(
    graph: TensorGraph, readers: Mapping[int, Sequence[int]], start: int, most: int
) -> Iterator[frozenset[int]]:
    """Yields connected sets of which the operator is the last one, the small ones first."""
    sets = [frozenset((start,))]
    known = set(sets)
    for chosen in sets:
        yield chosen
        if len(chosen) == most:
            continue
        beside = {i for n in chosen for i in (*graph.nodes[n].inputs, *readers[n]) if i < start}
        for n in sorted(beside - chosen):
            grown = chosen | {n}
            if OPS[graph.nodes[n].op].kind not in ("leaf", "opaque") and grown not in known and len(sets) < _MOST_SETS:
                known.add(grown)
                sets.append(grown)


def _cut(graph: TensorGraph, readers: Mapping[int, Sequence[int]], nodes: Sequence[int]) -> Neighbourhood | None:
    inside = set(nodes)
    read = [n for n in nodes if n in graph.outputs or any(r not in inside for r in readers[n])]
    # Several results are read outside if an operator outside stands between two inner ones, too.
    if read != [nodes[-1]]:
        return None
    outside = {i for n in nodes for i in graph.nodes[n].inputs if graph.nodes[i].op != "const"} - inside
    reads = [i for i in (*graph.inputs, *sorted(outside - {*graph.inputs})) if i in outside]
    part = fragment(graph, inside, read)
    border = [part.nodes[n].dtype for n in (*part.inputs, *part.outputs)]
    small = sum(part.type(n).elements for n in part.live()) <= MOST_ELEMENTS
    fits = small and part.inputs and all(DType.of(d).is_activation for d in border)
    return Neighbourhood(part, tuple(nodes), tuple(reads)) if fits else None


def replaced(graph: TensorGraph, part: Neighbourhood, other: TensorGraph) -> TensorGraph:
    """Returns the graph that a neighbourhood was cut from, with another graph in its place."""

    def written(out: Rewritten) -> int:
        inner = {i: out.number[o] for i, o in zip(other.inputs, part.reads, strict=True)}
        for m in (m for m in other.live() if m not in inner):
            inner[m] = out.graph.add_copy(other.nodes[m], [inner[i] for i in other.nodes[m].inputs])
        return inner[other.outputs[0]]

    return graph.rewrite({part.nodes[-1]: written}, without=part.nodes).graph


def _form(graph: TensorGraph) -> tuple[Any, ...]:
    """Returns a key of all but the values of constants and quantization, equal for neighbourhoods of one form."""
    nodes = (graph.nodes[n] for n in graph.live())
    return tuple(
        (n.op, n.inputs, n.shape, n.dtype, tuple((k, v) for k, v in n.attrs if k not in {*_QUANTIZATION, "value"}))
        for n in nodes
    )
