"""Whatever is chosen computes the same: choices at random prices, written as graphs, against the source."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from cost_models.analytic import Analytic
from cost_models.legality import is_cut
from cost_models.op_count import OpCount
from cost_models.protocol import Unit
from cost_models.vela_groups import VelaGroups
from eqsat.choice.candidates import _prices
from eqsat.choice.choice import Choices, build, correct
from eqsat.egraph.encoding import ENode, Frozen, saturate
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.rules import RULES
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import GraphError, Type, attrs_of
from eqsat.tosa import dumps, loads
from eqsat.tosa.flatbuffer import list_names
from eqsat.vela.defects import violations
from eqsat.vela.patterns import activated_turns
from eqsat.vela.table import Row
from extraction import extract
from extraction.normal_form import NormalForm
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, are_equal, channel_shuffle, compile_graph, residual, shared_rescale
from tests.term import graph, inputs, outputs


def forked() -> TensorGraph:
    """A transposed value with two readers, added again in the first layout, and concatenated; several outputs."""
    x, y = inputs("x:INT8[1,4,4,8] y:INT8[1,4,4,8]")
    t = x.layer(8).nchw()
    back = t.relu().plus(y.nchw()).nhwc()
    return outputs(t.nhwc().concat(back, axis=3).slice((0, 0, 1, 4), (1, 4, 3, 8)), back, t, back, x)


GRAPHS = (residual, pytest.param(channel_shuffle, marks=pytest.mark.slow), forked, shared_rescale)


def choices_of(graph: TensorGraph, model: VelaGroups) -> Choices:
    return build(saturate(graph, RULES), model)


def assert_equal(graph: TensorGraph, other: TensorGraph) -> None:
    assert other.signature() == graph.signature() and other.output_names == graph.output_names
    assert [other.nodes[i].attr("name") for i in other.inputs] == [graph.nodes[i].attr("name") for i in graph.inputs]
    assert are_equal(graph, other)


@pytest.mark.parametrize("source", GRAPHS)
def test_every_choice_means_the_same(source, model: VelaGroups) -> None:
    """Random prices lead to graphs that good ones never would."""
    graph, rng = source(), np.random.default_rng(7)
    choices = choices_of(graph, model)
    choice = extract(choices.graph, "dag_greedy").choice
    found, origin = choices.tensor_graph(choice)
    assert_equal(graph, found)
    assert violations(found, model.target.family) == []
    assert compile_graph(found, model.target, model.pool).cycles > 0
    bare, written_for = replace(choices, copies=()).tensor_graph(choice)
    assert_equal(graph, bare)
    steps = {c: [op for op, _ in choices.candidates[c].steps] for c in written_for.values()}
    assert all(bare.nodes[n].op in steps[c] for n, c in written_for.items())
    copies = {"add", "const", "depthwise_conv2d", "rescale", "reshape"}  # they have the origin of what they copy
    assert all(found.nodes[n].op in {*steps[c], *copies} for n, c in origin.items())

    written = set()
    for _ in range(12):
        prices = replace(
            choices.graph,
            cost=np.where(np.isinf(choices.graph.cost), np.inf, rng.integers(0, 100, len(choices.graph.cost))),
            pair_costs={},
        )
        found, _ = choices.tensor_graph(extract(prices, "dag_greedy").choice)
        assert_equal(graph, found)
        written.add(dumps(found))
    assert len(written) > 1 or source not in (channel_shuffle, forked)


def test_widening_rescales_stand_once_per_reader(model: VelaGroups) -> None:
    graph = shared_rescale()
    assert violations(graph, Target.of("ethos-u55-128").family)
    choices = choices_of(graph, model)
    found, _ = choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)
    wide = [n for n in found.live() if found.nodes[n].op == "rescale" and found.nodes[n].dtype == "INT32"]
    assert len(wide) == 4 and all(len(found.readers()[n]) == 1 for n in wide)
    assert min(NormalForm.of(choices.graph).price) >= 0, "what fuses into several readers is not paid back by each"
    assert violations(found, model.target.family) == []


def test_an_output_without_a_candidate_is_an_error(model: VelaGroups) -> None:
    graph = residual()
    frozen = saturate(graph, [])
    emptied = [[e for e in nodes if e.op != "conv2d"] for nodes in frozen.classes]
    with pytest.raises(GraphError, match="cannot be computed"):
        build(Frozen(emptied, frozen.types, frozen.handle, frozen.saturation, graph), model)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
def test_a_broadcast_is_written_in_few_commands(op: str, model: VelaGroups) -> None:
    """Without an e-node more; the price is that of what is written, and the RESCALEs and the TABLE still fuse."""
    x, y = inputs("x:INT8[6,1,1,16,8] y:INT8[1,1,1,16,1]")
    attrs = makers.mul() if op == "mul" else ()
    wide = x.rescale("INT32", in_zp=3).made(op, attrs, y.rescale("INT32", in_zp=-2))
    g = outputs(wide.rescale("INT8", shift=31).table(range(-128, 128)))
    choices = build(saturate(g, []), model)
    found, _ = choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)
    assert_equal(g, found)
    (written,) = (n for n in found.nodes if n.op == op)
    assert written.shape == (6, 16, 8)
    (priced,) = (c for c in choices.candidates if c.enode.op == op)
    assert priced.priced.result.shape == written.shape
    before, after = (compile_graph(graph, model.target, model.pool) for graph in (g, found))
    assert after.cycles < 0.8 * before.cycles and len(after.rows) == 2 < len(before.rows)


def test_a_sum_that_others_read_keeps_its_shape(model: VelaGroups) -> None:
    """A view of it would be a copy."""
    x, y = inputs("x:INT8[6,1,2,16,8] y:INT8[1,1,1,16,1]")
    x, y = x.rescale("INT32", in_zp=3), y.rescale("INT32", in_zp=-2)
    total = x + x
    g = outputs(total.rescale("INT8", shift=31), (total - y).rescale("INT8", shift=31))
    choices = build(saturate(g, []), model)
    found, _ = choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)
    assert_equal(g, found)
    assert [n.shape for n in found.nodes if n.op == "sub"] == [(6, 1, 2, 16, 8)]


def test_a_transpose_of_the_source_stays_possible_where_no_movement_of_its_dtype_is_legal() -> None:
    """ExecuTorch keeps TRANSPOSEs of INT32 from U55, but a delegate may have one."""
    g = graph("z:INT32[1,8,8,16] x:INT8[1,2,3,5]", lambda z, x: (z.nchw(), x.nhwc().relu().nchw()))
    choices = build(saturate(g, RULES), Analytic(Target.of("ethos-u55-128")))
    written, _ = choices.tensor_graph(extract(choices.graph, "dag_greedy").choice)
    assert written.op_counts().get("transpose") == 1


@pytest.mark.parametrize("alone", [False, True])
def test_what_vela_cuts_is_priced_only_where_there_is_nothing_else(alone: bool) -> None:
    xs = inputs("x:INT8[1,192] y:INT8[19,192]")
    one, other = (x.reshape(*x.shape, 1, 1, 1) for x in xs)
    asked: list[str] = []

    class Counting(OpCount):
        def cycles(self, unit: Unit) -> float:
            asked.append(unit.op)
            return super().cycles(unit)

    frozen = saturate(outputs(one.concat(other).reshape(20, 192)), [] if alone else RULES)
    found = [c for c in build(frozen, Counting(Target.of("ethos-u55-128"))).candidates if c.enode.op == "concat"]
    cut = [c for c in found if c.unit is not None and is_cut(c.unit)]
    assert cut and all(c.usable == alone for c in cut)
    assert any(c.usable for c in found) and asked.count("concat") == sum(c.usable for c in found)


def test_what_vela_cuts_is_priced_where_all_else_leads_back_to_it() -> None:
    """A CONCAT and its view, which are computed from each other."""
    wide, flat = Type((2001, 192, 1, 2), "INT8"), Type((2001, 384), "INT8")
    parts = Type((1000, 192, 1, 2), "INT8"), Type((1001, 192, 1, 2), "INT8")
    nodes = [(ENode("input", (), (), k), Unit((("input", ()),), (), t)) for k, t in enumerate(parts)]
    nodes += [
        (ENode("concat", attrs_of({"axis": 0}), (0, 1), 2), Unit((("concat", attrs_of({"axis": 0})),), parts, wide)),
        (ENode("move", (), (2,), 3), Unit((("reshape", attrs_of({"shape": flat.shape})),), (wide,), flat)),
        (ENode("move", (), (3,), 2), Unit((("reshape", attrs_of({"shape": wide.shape})),), (flat,), wide)),
    ]
    model = OpCount(Target.of("ethos-u55-128"))
    assert is_cut(nodes[2][1]) and all(p.cycles < math.inf for p in _prices(nodes, model))
    nodes.append((ENode("move", (), (0,), 3), Unit((("reshape", attrs_of({"shape": flat.shape})),), (wide,), flat)))
    assert [p.cycles < math.inf for p in _prices(nodes, model)] == [True, True, False, True, True, True]


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
