"""The search for cheaper equal graphs of a neighbourhood that the rules do not reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.discovery.convolutions import Window, trace, windows
from benchmarks.discovery.neighbourhoods import Neighbourhood
from eqsat.egraph.rule import Rule
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import ANY, Options
from eqsat.proof import PROVED, Prover
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import GraphError
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_graph

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
            return compile_graph(graph, self.target, self.pool, SECONDS).cycles
        except WorkerError:
            return None

    def known(self, graph: TensorGraph) -> int:
        """Returns the cycles of the best graph that the rules find.

        Raises WorkerError if Vela refuses the graph and all others that they make.
        """
        options = Options(
            preset="none",
            rules=tuple(self.rules),
            effort=1,
            binary_time_limit=0,
            max_sram=ANY,
            max_flash=ANY,
            remember=False,
        )
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
