"""A whole graph that Vela compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cost_models.command_stream import StreamPrice
from eqsat.choice.choice import Choices
from eqsat.options.decision import Figures
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A compiled graph, for comparison with the others, from which it differs by identity.

    name: "explicit", "stock" or "eqsat".
    given: "explicit" or "stock", where it is that graph in another order or with other settings.
    settings: of Vela, besides those of the target.
    parts_of: {node of the graph: the node that it computes a part of, or all}, of the graph without stripes; empty
    where it has none.
    tolerant: its e-graph has rules that save roundings.
    judged: the price of its command stream, where that decides.
    choices, choice: what it was extracted from, at the prices of that time; None and empty for a given graph.
    classes: {node of the graph: the e-class that it computes}.
    """

    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate
    tolerant: bool = False
    judged: StreamPrice | None = None
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)
    classes: Mapping[int, int] = field(default_factory=dict)
    given: str = ""
    settings: tuple[str, ...] = ()
    parts_of: Mapping[int, int] = field(default_factory=dict)

    @property
    def figures(self) -> Figures:
        cycles = self.estimate.corrected if self.judged is None else self.judged.cycles
        return Figures.of(cycles, self.estimate.footprint, self.estimate.cycles)
