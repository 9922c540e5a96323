"""What views cost by the choice graph is what Vela copies."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from cost_models.cache import PriceCache
from cost_models.vela_groups import VelaGroups
from eqsat.choice.choice import Choices, build
from eqsat.choice.storage import view_costs
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from extraction import extract
from tests.fake_oracle import by_vela
from tests.term import inputs, outputs

A, B, C = (1, 8, 16, 32), (1, 4, 32, 32), (1, 16, 8, 32)


def viewed(*shapes: tuple[int, ...]) -> TensorGraph:
    """A value of shape A that is read in `shapes`, each time from A."""
    (x,) = inputs("x:INT8[1,8,16,32]")
    x = x.clamp(-100, 90)
    return outputs(*((x if s == A else x.reshape(*s)).clamp(-90, 80 - k) for k, s in enumerate(shapes)))


def copies(choices: Choices, choice: dict[int, int]) -> float:
    """What the choice is charged for shapes."""
    shapes = {n for c, n in choice.items() if c >= len(choices.classes)}
    return sum(choices.graph.cost[n] for n in shapes) + sum(
        d for (n, m), d in choices.graph.pair_costs.items() if n in shapes and m in shapes
    )


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_a_value_is_copied_for_every_shape_but_one(target: str, pool: Pool, tmp_path) -> None:
    model = VelaGroups(Target.of(target), pool, PriceCache(tmp_path / "prices"))
    for shapes in ((A,), (B,), (B, B), (A, B), (A, C), (B, C), (A, B, C)):
        choices = build(saturate(viewed(*shapes), []), model)
        found = extract(choices.graph)
        written, _ = choices.tensor_graph(found.choice)
        rows = [r.priced for r in by_vela(written, model.target, pool).estimate.rows if r.operator == "MemoryCopy"]
        assert len(rows) == len(set(shapes)) - 1
        assert sum(rows) == pytest.approx(copies(choices, found.choice), rel=0.05, abs=1)


def test_a_copy_without_a_price_is_no_price(pool: Pool, tmp_path) -> None:
    """Workers that die leave some copies unpriced."""
    model = VelaGroups(Target.of("ethos-u85-256"), pool, PriceCache(tmp_path / "prices"))
    choices = build(saturate(viewed(A, B), []), model)
    found = choices.candidates
    unpriced = [replace(c, price=replace(c.price, copied=math.inf)) if c.price.copied else c for c in found]
    shapes = [choices.frozen.type_of(c).shape for c in choices.classes]
    assert view_costs(shapes, found, []).pairs and not view_costs(shapes, unpriced, []).pairs
