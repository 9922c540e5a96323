"""The search for cheaper equal graphs of a neighbourhood that the rules do not reach."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchmarks.device.explain import fragment, operators
from benchmarks.discovery.convolutions import Window, trace, windows
from eqsat.egraph.rule import Rule
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import ANY, Options
from eqsat.proof import PROVED, Prover
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import Rewritten, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import DType, GraphError
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa

#: Elements of all tensors of a neighbourhood together, at most, as each is evaluated often.
MOST_ELEMENTS = 1 << 21
#: Connected sets that are examined per operator, at most.
_MOST_SETS = 200
#: Attributes of constants and of a quantization, in which neighbourhoods of one form may differ.
_VALUES = frozenset({"value", "multiplier", "shift", "in_zp", "out_zp", "w_zp", "table", "min_val", "max_val"})


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
    nodes = [graph.nodes[n] for n in graph.live()]
    return tuple((n.op, n.inputs, n.shape, n.dtype, *(a for a in n.attrs if a[0] not in _VALUES)) for n in nodes)


#: Candidates that are compiled per neighbourhood, at most.
_MOST_COMPILED = 12
#: Proofs that are tried per neighbourhood, at most.
_MOST_PROOFS = 6
#: Seconds that Vela may take for a candidate.
SECONDS = 60.0
#: Work of a candidate, at most, as a multiple of the neighbourhood's.
_MOST_WORK = 3
#: Multiply-accumulates that take as long as a pointwise operator takes for an element.
_POINTWISE = 16
#: Multiply-accumulates that take as long as moving an element.
_MOVED = 64


@dataclass(frozen=True, slots=True)
class Discovery:
    """A proved equality that saves cycles where it was found.

    before: cycles of the neighbourhood as it is.
    known: cycles of the rules' best graph for it.
    after: cycles of `graph`.
    """

    neighbourhood: Neighbourhood
    recipe: Window
    graph: TensorGraph
    target: str
    before: int
    known: int
    after: int

    def record(self) -> dict[str, Any]:
        """Returns the discovery as a JSON object."""
        cycles = {"before": self.before, "known": self.known, "after": self.after}
        return {"recipe": self.recipe.text, "target": self.target, "places": self.neighbourhood.places, **cycles}


@dataclass(frozen=True, slots=True)
class Discoverer:
    """The search for equalities on a target.

    rules: those whose equalities are already known.
    """

    target: Target
    pool: Pool
    rules: Sequence[Rule]

    def cycles(self, graph: TensorGraph) -> int | None:
        """Returns the cycles by Vela's total, or None if it refuses the graph or exceeds `SECONDS`."""
        try:
            return compile_tosa(dumps(graph), self.target, self.pool, SECONDS).cycles
        except WorkerError:
            return None

    def known(self, graph: TensorGraph) -> int:
        """Returns the cycles of the best graph that the rules find.

        Raises WorkerError if Vela refuses the graph and all others that they make.
        """
        given = {"preset": "none", "rules": tuple(self.rules), "effort": 1, "binary_time_limit": 0, "remember": False}
        options = Options(**given, max_sram=ANY, max_flash=ANY)
        return optimize_tosa(dumps(graph), self.target, options=options).cycles

    def discover(self, neighbourhood: Neighbourhood) -> Discovery | None:
        """Returns the cheapest proved recipe with fewer cycles than the rules reach, or None."""
        graph = neighbourhood.graph
        candidates = self._candidates(graph)
        before = self.cycles(graph) if candidates else None
        if before is None:
            return None
        priced = [(c, n, r, g) for n, (r, g) in enumerate(candidates) if (c := self.cycles(g)) is not None]
        cheaper = sorted(p for p in priced if p[0] < before)[:_MOST_PROOFS]
        known = self.known(graph) if cheaper else before
        prover = Prover(graph, seconds=60.0)
        for after, _, recipe, made in (p for p in cheaper if p[0] < known):
            if prover.prove(made, search=False).verdict == PROVED:
                return Discovery(neighbourhood, recipe, made, self.target.accelerator, before, known, after)
        return None

    def _candidates(self, graph: TensorGraph) -> list[tuple[Window, TensorGraph]]:
        """Returns recipes and the graphs that they make, those of least work first."""
        try:
            source = trace(graph)
        except GraphError:
            return []
        most = _MOST_WORK * work(graph)
        found: dict[bytes, tuple[Window, TensorGraph]] = {}
        for recipe in windows(graph):
            made = recipe.follow(source)
            if made is not None and work(made) <= most:
                found.setdefault(dumps(made), (recipe, made))
        found.pop(dumps(graph), None)
        return sorted(found.values(), key=lambda p: work(p[1]))[:_MOST_COMPILED]


def work(graph: TensorGraph) -> int:
    """Returns an estimate of a graph's work, in multiply-accumulates."""
    total = 0
    for n in graph.live():
        node, kind = graph.nodes[n], OPS[graph.nodes[n].op].kind
        macs = OPS[node.op].macs
        if macs:
            total += macs([graph.type(i) for i in node.inputs], graph.type(n))
        elif kind != "leaf" and node.op != "reshape":
            total += graph.type(n).elements * (_MOVED if kind in ("move", "concat") else _POINTWISE)
    return total
