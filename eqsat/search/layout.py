"""The cheapest layout of a graph above TOSA's level, which Vela cannot price."""

from __future__ import annotations

from cost_models.layout import Layout
from eqsat.choice.choice import build
from eqsat.egraph.encoding import saturate
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from extraction import extract


def cheapest_layout(
    graph: TensorGraph, target: Target, options: Options | None = None
) -> tuple[TensorGraph, float, float]:
    """The graph equal to `graph` whose data movement costs least by `cost_models.layout`, its cost and that of `graph`
    itself.

    Raises EngineError, GraphError, ExtractionError.
    """
    options = options or Options()
    model = Layout(target)
    before = extract(build(saturate(graph, [], options.budget), model).graph, "dag_greedy").cost
    choices = build(saturate(graph, options.identities(target), options.budget), model)
    found = extract(choices.graph, options.extractor, time_limit=options.time_limit).unless_interrupted()
    return choices.written(found.choice)[0], float(found.cost), float(before)
