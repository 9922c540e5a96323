"""A whole graph that Vela has compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from eqsat.choice.choice import Choices
from eqsat.options.decision import Figures
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import Estimate


@dataclass(frozen=True, slots=True, eq=False)
class Compiled:
    """A compiled graph; two of them are equal only if they are identical.

    name: "explicit", "stock" or "eqsat".
    given: "explicit" or "stock" if it is that graph in another order or with other settings.
    settings: of Vela, besides those of the target.
    parts_of: {node: node of the graph without stripes that it computes, as a whole or in part}.
    It is empty for a graph without stripes.
    choices, choice: the source of an extracted graph, at the prices of that time.
    They are None and empty for a given graph.
    """

    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate
    choices: Choices | None = None
    choice: Mapping[int, int] = field(default_factory=dict)
    given: str = ""
    settings: tuple[str, ...] = ()
    parts_of: Mapping[int, int] = field(default_factory=dict)

    @property
    def figures(self) -> Figures:
        return Figures.of(self.estimate.corrected, self.estimate.footprint, self.estimate.cycles)
