"""Equivalent graphs out of one saturated e-graph: near-optimal ones, noisy ones, random ones."""

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
from extraction import ChoiceGraph, ExtractionError, extract, k_best

#: Prices are multiplied by exp(noise times a normal variate); inf: they are drawn at random.
NOISE = (0.03, 0.1, 0.3, 1.0, 3.0, float("inf"))
#: Extractions tried per graph wanted; where no new graph has come for so many, there are few.
_TRIES, _PATIENCE = 4, 60
_NEAR, _NEAR_SECONDS = 20, 5.0


@dataclass(frozen=True, slots=True)
class Sample:
    """A graph and how it was drawn: "near" the cheapest by the price, or the noise on the prices."""

    graph: TensorGraph
    how: str


def saturated(explicit: bytes) -> Frozen:
    return saturate(loads(explicit), PRESETS["all"])


def draw(frozen: Frozen, model: CostModel, wanted: int, seed: int = 0) -> list[Sample]:
    """Up to `wanted` distinct graphs, less where the e-graph holds or the extractions show no more. Graphs that break a
    guard are left out. Deterministic for a seed unless `_NEAR_SECONDS` cut the near ones short."""
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

    near = max(1, min(_NEAR, wanted // 4))
    for e in k_best(choices.graph, near, time_limit=_NEAR_SECONDS, seed=seed, max_ratio=1.25):
        offer(e.choice, "near")
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
    if noise == float("inf"):
        return replace(graph, cost=rng.random(graph.n_nodes), pair_costs={})
    return replace(graph, cost=graph.cost * np.exp(noise * rng.standard_normal(graph.n_nodes)))
