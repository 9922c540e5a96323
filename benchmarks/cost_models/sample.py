"""Equivalent graphs out of one saturated e-graph: the best by the prices, noisy and random ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cost_models import CostModel
from eqsat.choice import choice
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.rules.presets import PRESETS
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.vela.guards import violations
from extraction import ChoiceGraph, ExtractionError, extract

#: Levels of noise: prices are multiplied by exp(noise * a standard normal variate).
#: For inf they are drawn at random.
NOISE = (0.03, 0.1, 0.3, 1.0, 3.0, float("inf"))
#: Most extractions per graph that is wanted, and extractions without a new graph after which the search ends.
_TRIES, _PATIENCE = 4, 60
#: Seconds of the search for the best graph.
_BEST_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A graph out of an e-graph.

    how: "best" by the prices, or the noise on the prices.
    """

    graph: TensorGraph
    how: str


def saturated(explicit: bytes) -> Frozen:
    """Returns the e-graph of a TOSA graph, saturated with all rules."""
    return saturate(loads(explicit), PRESETS["all"])


def draw(frozen: Frozen, model: CostModel, wanted: int, seed: int = 0) -> list[Sample]:
    """Returns up to `wanted` distinct graphs.

    There are fewer if the e-graph holds no more or the extractions find no more.
    Graphs that break a guard are left out.
    The result is deterministic for a seed, unless `_BEST_SECONDS` ends the search for the best graph.
    """
    choices = choice.build(frozen, model)
    found: dict[bytes, Sample] = {}

    def offer(picked: dict[int, int], how: str) -> bool:
        graph, _ = choices.tensor_graph(picked)
        if violations(graph, model.target.family):
            return False
        buffer = dumps(graph)
        new = buffer not in found
        found.setdefault(buffer, Sample(graph, how))
        return new

    offer(extract(choices.graph, "portfolio", time_limit=_BEST_SECONDS, seed=seed).choice, "best")
    rng = np.random.default_rng(seed)
    idle = 0
    for k in range(_TRIES * wanted):
        if len(found) >= wanted or idle >= _PATIENCE:
            break
        noise = NOISE[k % len(NOISE)]
        try:
            e = extract(_noisy(choices.graph, noise, rng), "dag_greedy", time_limit=2.0, seed=k)
        except ExtractionError:
            continue
        idle = 0 if offer(e.choice, f"noise {noise:g}") else idle + 1
    return list(found.values())


def _noisy(graph: ChoiceGraph, noise: float, rng: np.random.Generator) -> ChoiceGraph:
    """Returns a choice graph with noise on its costs."""
    if noise == float("inf"):
        return replace(graph, cost=rng.random(graph.n_nodes), pair_costs={})
    return replace(graph, cost=graph.cost * np.exp(noise * rng.standard_normal(graph.n_nodes)))
