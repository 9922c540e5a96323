"""Vela's table of a whole graph corrects the prices of the next extraction."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.vela_groups import VelaGroups
from eqsat.choice.choice import Choices, build, correct
from eqsat.egraph.encoding import saturate
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor import makers
from eqsat.tosa import dumps, loads
from eqsat.tosa.flatbuffer import list_names
from eqsat.vela.patterns import activated_turns
from eqsat.vela.table import Row
from extraction import extract
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, channel_shuffle
from tests.term import graph, inputs, outputs


def changed(before: Choices, after: Choices) -> list[int]:
    """Choice nodes whose price differs, in the choice graph and in the candidates alike."""
    nodes = np.flatnonzero(before.graph.cost != after.graph.cost).tolist()
    assert nodes == [
        n
        for n, (old, new) in enumerate(zip(before.candidates, after.candidates, strict=True))
        if old.cycles != new.cycles
    ]
    return nodes


@pytest.mark.slow
@pytest.mark.parametrize("name", ["y", "n7"])
def test_rows_correct_prices(name: str, model: VelaGroups) -> None:
    """Of outputs too, which have the user's name; where that looks like ours, all of ours look otherwise."""
    source = channel_shuffle()
    source.output_names = [name]
    choices = build(saturate(source, RULES), model)
    written = graph, origin = choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)
    assert changed(choices, correct(choices, *written, [])[0]) == [] and not correct(choices, *written, [])[1]
    for n in (*graph.outputs, next(n for n in origin if n not in graph.outputs)):
        rows = [Row("Conv2D", list_names(graph)[n], 10**6, 10**6, 0, 10**6, 0, 0, 0)]
        after, may_differ = correct(choices, *written, rows)
        assert may_differ and changed(choices, after) == [origin[n]] and after.graph.cost[origin[n]] <= 10**6
        again, may_differ = correct(after, *written, rows)
        assert not may_differ and changed(after, again) == []


@pytest.mark.pins
@pytest.mark.slow
def test_a_widening_rescale_that_is_an_operator_of_its_own_is_charged(model: VelaGroups, pool: Pool) -> None:
    """It was expected to be part of the sum, which it is not beside the INT32 result of a convolution."""
    (x,) = inputs("x:INT16[1,16,16,16]")
    x, weights = x.clamp(0), np.random.default_rng(0).integers(-127, 127, (16, 3, 3, 16))
    conv = makers.conv("INT16", pad=(1, 1, 1, 1))
    sums = x.made("conv2d", conv, x.const(weights, "INT8"), x.const(np.zeros(16), "INT48"))
    both = sums.rescale("INT32", 20000, 13, scale32=False) + x.rescale("INT32", shift=19)
    g = outputs(both.rescale("INT16", 1923147387, 42))
    choices = build(saturate(g, RULES), model)
    for _ in range(4):
        written = choices.tensor_graph(extract(choices.graph, "asp").choice)
        compiled = by_vela(written[0], model.target, pool)
        choices, may_differ = correct(choices, *written, compiled.estimate.rows)
    assert not may_differ and written[0].op_counts()["mul"] == 1
    assert compiled.figures.cycles < by_vela(g, model.target, pool).figures.cycles


def test_a_fusion_into_what_others_read_is_dropped(model: VelaGroups, pool: Pool) -> None:
    halved = [k // 2 for k in range(-128, 128)]
    g = graph("x:INT8[1,32,32,16]", lambda x: (y := x.layer(16)).plus(y.table(halved)))
    choices = build(saturate(g, []), model)
    found = extract(choices.graph, "asp")
    written = choices.tensor_graph(found.choice)
    compiled = by_vela(written[0], model.target, pool)
    choices, may_differ = correct(choices, *written, compiled.estimate.rows)
    assert may_differ
    after = extract(choices.graph, "asp")
    assert after.choice == found.choice and found.cost < after.cost, "the same operators, the TABLE for its full price"
    assert abs(after.cost - compiled.figures.cycles) < abs(found.cost - compiled.figures.cycles)
    assert not correct(choices, *written, compiled.estimate.rows)[1]


@ON_THE_NEWEST_VELA
def test_an_activation_is_chosen_before_the_transpose_behind_which_a_reader_begins_too_early() -> None:
    """The first choice applies it behind, at no cost."""
    given = graph("x:INT8[1,1,64,16]", lambda x: x.transpose(0, 1, 3, 2).table(range(127, -129, -1)).layer(48, 3))
    result = optimize_tosa(dumps(given), "ethos-u85-256", options=Options(effort=1))
    (refused,) = result.warnings
    assert "may begin" in refused and any(activated_turns(given))
    assert result.chosen == "eqsat" and result.proved and result.binary_proved
    assert result.calibrated < 0.5 * result.explicit_calibrated
    assert not any(activated_turns(loads(result.tosa)))
