"""Prices on memory: what is live where SRAM runs short is charged, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cost_models
from cost_models.cache import PriceCache
from eqsat.choice.choice import Choices, build
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.options.decision import MemoryLimits
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposals.memory import MemoryUse
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from extraction import extract
from tests.fake_oracle import by_total
from tests.graphs import ON_THE_NEWEST_VELA, U55, compile_graph
from tests.term import Term, graph, inputs, outputs


def skipped() -> tuple[TensorGraph, dict[str, int]]:
    """A sum around a chain that is wide in the middle, and its nodes by name."""
    named: dict[str, int] = {}
    (x,) = inputs("x:INT8[1,16,16,4]")
    wide = (kept := x.layer(64)).layer(128, seed=1)
    narrow = (wider := wide.layer(128, seed=2)).layer(64, seed=3)
    named.update(kept=kept.n, wide=wide.n, wider=wider.n, narrow=narrow.n)
    return outputs((narrow.rescale("INT32") + kept.rescale("INT32")).rescale("INT8")), named


@pytest.fixture
def known(pool: Pool, prices: PriceCache) -> tuple[Choices, Compiled, dict[str, int]]:
    given, nodes = skipped()
    frozen = saturate(given, [])
    choices = build(frozen, cost_models.find("analytic")(U55, pool, prices))
    choice = extract(choices.graph, "dag_greedy").choice
    position = {c: i for i, c in enumerate(choices.classes)}
    found = compiled(choices, choice, pool)
    return choices, found, {name: position[frozen.handle[n]] for name, n in nodes.items()}


def compiled(choices: Choices, choice: dict[int, int], pool: Pool) -> Compiled:
    graph, made_for = choices.tensor_graph(choice)
    return by_total(Candidate("eqsat", graph, dumps(graph), choices, choice, made_for), compile_graph(graph, U55, pool))


def learnt(choices: Choices, graph: Compiled, sram: int | None = None) -> MemoryUse:
    """What one graph shows."""
    use = MemoryUse(choices, MemoryLimits(sram))
    use.learn(choices, [graph])
    return use


@ON_THE_NEWEST_VELA
def test_what_is_live_where_sram_runs_short_is_charged(known) -> None:
    choices, graph, classes = known
    use = learnt(choices, graph, graph.figures.sram - 100)
    charged = {name: use.sram[graph.choice[c]] for name, c in classes.items()}
    assert charged == {"kept": 100, "wide": 100, "wider": 100, "narrow": 0}
    share, prices = 0.5, use.price(choices, graph.figures, 0.5).graph.cost - choices.graph.cost
    assert np.allclose(prices, share * graph.figures.cycles / (graph.figures.sram - 100) * use.sram)
    (budget,) = use.budgets(choices, graph)
    assert budget.excess(graph.choice) == 100


def test_what_fits_is_not_charged(known) -> None:
    choices, graph, _ = known
    use = learnt(choices, graph, graph.figures.sram)
    assert not use.sram.any()
    assert (use.price(choices, graph.figures, 0.5).graph.cost == choices.graph.cost).all()


def test_flash_is_charged_for_about_what_vela_stores(known) -> None:
    """Commands of the compiled graph, without those of its last operator, and weights as it encodes them."""
    choices, graph, _ = known
    flash = learnt(choices, graph).flash(choices)
    assert flash[list(graph.choice.values())].sum() == pytest.approx(graph.figures.flash, rel=0.1)


@ON_THE_NEWEST_VELA
def test_weights_that_are_in_sram_are_charged_to_their_convolution(pool: Pool, prices: PriceCache) -> None:
    """Of two convolutions, whose weights are in SRAM side by side."""
    both = graph("x:INT8[1,32,32,32]", lambda x: x.layer(64, 3).concat(x.layer(64, 3, seed=1), axis=3))
    choices = build(saturate(both, []), cost_models.find("analytic")(U55, pool, prices))
    choice = extract(choices.graph, "dag_greedy").choice
    found = compiled(choices, choice, pool)
    estimate = found.estimate
    buffers = [t for t in estimate.tensors if estimate.read_by(t)]
    assert buffers and all(estimate.read_by(t).weight_bytes > 0 for t in buffers)
    charged = learnt(choices, found, sram=1).sram
    largest: dict[str, int] = {}
    for t in buffers:
        source = estimate.read_by(t).source
        largest[source] = max(largest.get(source, 0), t.end - t.address)
    convolutions = [n for n, c in enumerate(choices.candidates) if c.enode.op == "conv2d"]
    assert sorted(charged[convolutions]) == sorted(largest.values()) and len(largest) == 2


def scaled(x: Term) -> Term:
    """Products with constants per channel, all alike; each is faster as a depthwise convolution, for more flash."""
    rng = np.random.default_rng(0)
    for i in range(8):
        points = x.const(rng.integers(-100, 100, (1, 1, 1, 32)), "INT32")
        x = (x.rescale("INT32") * points).rescale("INT8", shift=37 + i % 2)
    return x


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_of_equal_gains_as_many_are_taken_as_fit_into_flash(tmp_path: Path) -> None:
    given = dumps(graph("x:INT8[1,16,16,32]", scaled))
    options = Options(effort=1, cache=tmp_path / "p", max_sram="any", max_flash="any")
    free = optimize_tosa(given, "ethos-u55-128", stock=given, options=options)
    least, most = free.stock_footprint.payload, free.footprint.payload
    assert free.calibrated < free.stock_calibrated / 2 and most > 2 * least
    half = optimize_tosa(given, "ethos-u55-128", stock=given, options=replace(options, max_flash=(least + most) // 2))
    assert half.verified and half.footprint.payload <= (least + most) // 2
    assert half.calibrated < 0.75 * free.stock_calibrated
