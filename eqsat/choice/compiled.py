"""Candidates, which are graphs that Vela may compile, and compiled candidates with their figures."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from eqsat.choice.choice import Choices
from eqsat.options.decision import Figures
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, list_names
from eqsat.tosa.locations import read, text
from eqsat.vela.compile import Estimate

#: What distinguishes a candidate: whose graph it is, its flatbuffer, and its settings of Vela.
Key = tuple[str, bytes, tuple[str, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A graph that Vela may compile; two candidates are equal only if they are the same object.

    name: "explicit", "stock" or "eqsat".
    tosa: its flatbuffer.
    choices, choice: the source of an extracted graph, at the prices of that time; None and empty for a given one.
    made_for: {node: choice node} of a graph that is written as it was chosen.
    given: "explicit" or "stock" if it is made of that graph, or is that graph with other settings.
    settings: of Vela, besides those of the target.
    parts_of: {node: node of the graph that it was made of by rewriting, which it computes as a whole or in part}.
    It is empty for a graph that is written as it was chosen or given.
    tensors: {tensor: its node} of a graph that was read; one that was written has them named after its nodes.
    is_rewritten: whether the graph was changed after it was written as it was chosen or given.
    by: the name of the extractor or the rewriting in records, "" for a graph that was read.
    predicted: its cycles, as far as they were known before compilation.
    gap: the proved relative gap of its extraction (None: no bound).
    """

    name: str
    graph: TensorGraph
    tosa: bytes
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)
    made_for: Mapping[int, int] = field(default_factory=dict)
    given: str = ""
    settings: tuple[str, ...] = ()
    parts_of: Mapping[int, int] = field(default_factory=dict)
    tensors: Mapping[str, int] = field(default_factory=dict)
    is_rewritten: bool = False
    by: str = ""
    predicted: float = 0.0
    gap: float | None = None

    @property
    def key(self) -> Key:
        return self.name, self.tosa, self.settings

    @property
    def is_chosen(self) -> bool:
        """Whether it is written as it was chosen from the e-graph, without settings of Vela."""
        return self.choices is not None and not (self.is_rewritten or self.settings)


#: What Vela adds to the name of a tensor for one of its own.
_ADDED = re.compile(r"[_/][^_/]*$")
_FIELDS = tuple(f.name for f in fields(Candidate))


@dataclass(frozen=True, slots=True, eq=False)
class Compiled(Candidate):
    """A compiled graph, with the figures and the number of operators by which it is compared with others."""

    estimate: Estimate = field(kw_only=True)
    figures: Figures = field(kw_only=True)
    operators: int = field(kw_only=True)

    @staticmethod
    def of(candidate: Candidate, estimate: Estimate, cycles: int) -> Compiled:
        """Returns a candidate with Vela's estimate of it. cycles: by the price that decides."""
        known = {name: getattr(candidate, name) for name in _FIELDS}
        figures = Figures.of(cycles, estimate.footprint, estimate.cycles)
        operators = sum(candidate.graph.op_counts().values())
        return Compiled(**known, estimate=estimate, figures=figures, operators=operators)

    @property
    def nodes(self) -> Mapping[str, int]:
        """{tensor, as Vela's tables name it: its node}."""
        return self.tensors or {name: n for n, name in list_names(self.graph).items()}

    def _change(self, by: str, **changes: Any) -> Candidate:
        """Returns one of our candidates, which differs in some fields. by: the name of the rewriting."""
        known = {name: getattr(self, name) for name in _FIELDS}
        given = self.given or ("" if self.name == "eqsat" else self.name)
        own = {"name": "eqsat", "given": given, "by": by, "predicted": float(self.figures.cycles), "gap": None}
        return Candidate(**(known | own | changes))

    def rewrite(self, graph: TensorGraph, by: str, source: Mapping[int, int] | None = None) -> Candidate:
        """Returns a candidate with another graph, and the locations of this one.

        source: {node of that graph: node of this one that it computes}; None: nodes have the same numbers.
        """
        parts_of, located = self.parts_of, read(self.tosa)
        nodes = self.nodes if located else {}
        locations = {nodes[t]: text(origins) for t, origins in located.items() if t in nodes}
        if source is not None:
            parts_of = {n: parts_of.get(k, k) for n, k in source.items()}
            locations = {n: locations[k] for n, k in source.items() if k in locations}
        buffer = dumps(graph, locations)
        own = {"graph": graph, "tosa": buffer, "parts_of": parts_of, "made_for": {}, "tensors": {}}
        return self._change(by, **own, is_rewritten=True)

    def with_setting(self, setting: str, by: str) -> Candidate:
        """Returns this graph with another setting of Vela."""
        return self._change(by, settings=(setting,))


def node_of(tensor: str, nodes: Mapping[str, int]) -> int | None:
    """Returns the node of a tensor, or of the one that Vela named it after ("n5_int32", "n5/Transpose"); None: of none.

    nodes: {tensor: its node}.
    """
    while tensor not in nodes and (added := _ADDED.search(tensor)):
        tensor = tensor[: added.start()]
    return nodes.get(tensor)
