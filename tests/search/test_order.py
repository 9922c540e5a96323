"""The order in which Vela runs a graph is chosen by the operands of what commutes."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.choice.compiled import Compiled
from eqsat.device.binary import binary_of
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision, Figures, MemoryLimits
from eqsat.options.options import Options
from eqsat.proof import prove
from eqsat.proof.binary import prove_binary
from eqsat.search.loop import Loop
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import State, Step
from eqsat.search.proposals.chains import before_sums, chains, in_parts
from eqsat.search.proposals.orders import Allocation, execution, orders, swaps, with_swap
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.fake_oracle import by_vela
from tests.graphs import ON_THE_NEWEST_VELA, U55, U65, U85, are_equal, located
from tests.term import graph, inputs, outputs

ANY = MemoryLimits()


def shortcut(thin_first: bool, is_transposed: bool = False) -> TensorGraph:
    """A thin branch and one that is wide inside, added; behind two transposes that are of no use."""
    (x,) = inputs("x:INT8[1,16,16,16]")
    for k in range(64):
        x.const([k])  # not read: loaded, the nodes have other numbers than their tensors' names
    x = x.layer(16, seed=9)
    x = x.nchw().clamp(-128, 126).nhwc() if is_transposed else x.clamp(-128, 126)
    wide, thin = x.layer(32, 3, seed=1).layer(16, 3, seed=2), x.layer(16, 3, seed=3)
    return outputs((thin.plus(wide) if thin_first else wide.plus(thin)).layer(16, seed=4))


def halved() -> TensorGraph:
    """A block that halves the image, its convolution of stride 2 far from its shortcut in the order of operands."""
    (x,) = inputs("x:INT8[1,16,16,32]")
    x = x.layer(32, 3, seed=9)
    weights = np.random.default_rng(1).integers(-127, 128, (64, 3, 3, 32))
    y = x.conv(weights, np.zeros(64), pad=(0, 1, 0, 1), stride=(2, 2), in_zp=-3)
    deep = y.rescale("INT8", shift=38, out_zp=-5).layer(64, 3, seed=2)
    return outputs(deep.plus(x.slice((0, 0, 0, 0), (1, 8, 8, 32)).layer(64, seed=3)).layer(16, seed=4))


def rounds(graph: TensorGraph, target: Target, pool: Pool, limits: MemoryLimits = ANY) -> list[Compiled]:
    """The graph, and what the rounds find, in the order in which they find it."""
    start, loop = by_vela(graph, target, pool), Loop(Oracle(target, pool))
    state = State(target, Options(), decision=Decision(limits=limits)).with_graphs([start])
    end = loop.improve(state, [Step(orders, 0.2)], lambda c: True)
    assert len(loop.extractions) == len(end.graphs) - 1 and not loop.warnings
    return end.graphs


def best(found: list[Compiled]) -> Figures:
    return min((c.figures for c in found), key=lambda f: (f.cycles, f.sram))


@ON_THE_NEWEST_VELA
def test_swapped_operands_of_an_addition_lower_the_peak(pool: Pool) -> None:
    found = rounds(shortcut(thin_first=False), U65, pool)
    before, after = found[0].figures, best(found)
    assert after.cycles == before.cycles and after.sram < 0.92 * before.sram
    assert all(are_equal(found[0].graph, c.graph) for c in found)
    assert best(rounds(shortcut(thin_first=True), U65, pool))[:2] == after[:2]


@ON_THE_NEWEST_VELA
def test_swapped_operands_of_an_addition_save_cycles(pool: Pool) -> None:
    found = rounds(halved(), U55, pool)
    assert best(found).cycles < 0.97 * found[0].figures.cycles
    assert all(are_equal(found[0].graph, c.graph) for c in found)


@ON_THE_NEWEST_VELA
def test_a_faster_graph_that_does_not_fit_is_made_to_fit(pool: Pool) -> None:
    """The swap lowers the peak on U55 for a few cycles more: only with a limit it is the best one."""
    given = shortcut(thin_first=False)
    free = rounds(given, U55, pool)
    limits = MemoryLimits(sram=free[0].figures.sram - 1)
    assert any(limits.fits(c.figures) for c in rounds(given, U55, pool, limits))
    assert not limits.fits(best(free))


@pytest.mark.parametrize("given", [shortcut(False), halved()], ids=["shortcut", "halved"])
@pytest.mark.parametrize("target", [U55, U65], ids=lambda t: t.accelerator)
def test_the_peak_of_an_order_is_about_velas(given: TensorGraph, target: Target, pool: Pool) -> None:
    """Of the graph as it is, as far as nodes and weights have it."""
    found = by_vela(given, target, pool)
    allocation, peak = Allocation.of(found), found.estimate.sram_peak
    assert len(allocation.order(given)) == len(found.estimate.operators)
    assert 0.8 * peak < max(allocation.in_sram(given)) <= peak


def test_vela_runs_the_last_operand_first() -> None:
    g = graph("x:INT8[1,4]", lambda x: x.rescale("INT32") + x.rescale("INT32", shift=29))
    (total,) = g.outputs
    a, b = g.nodes[total].inputs
    assert execution(g) == [b, a, total]
    assert execution(with_swap(g, total)) == [a, b, total]


def test_what_is_read_twice_or_not_computed_is_not_swapped() -> None:
    (x,) = inputs("x:INT32[1,4]")
    y = x + x
    z = y * y.const(np.ones((1, 4)))
    g = outputs(y.max(z) - z)
    assert [g.nodes[n].op for n in swaps(g)] == ["maximum"]


@pytest.mark.slow
@ON_THE_NEWEST_VELA
def test_the_answer_runs_in_the_better_order() -> None:
    """It is proved, its binary is run, and its operators keep their origins."""
    given, target = shortcut(False), U65
    result = optimize_tosa(located(given), target, options=Options(max_sram="any", effort=1))
    assert result.chosen == "eqsat" and result.verified and result.proved and result.binary_verified
    assert result.footprint.sram < 0.95 * result.explicit_footprint.sram
    assert result.calibrated <= result.explicit_calibrated
    assert "order" in {e.extractor for e in result.extractions} and all(row["origins"] for row in result.table)
    assert are_equal(given, loads(result.tosa, "the answer"))


@ON_THE_NEWEST_VELA
def test_stocks_graph_in_another_order_may_be_the_answer() -> None:
    """Where nothing else is found that is as fast."""
    stock = dumps(shortcut(False))
    options = Options(max_sram="any", effort=1, preset="none")
    result = optimize_tosa(dumps(shortcut(False, is_transposed=True)), "ethos-u65-256", stock=stock, options=options)
    assert result.chosen == "eqsat" and result.verified and result.proved and result.binary_verified
    assert result.calibrated <= result.stock_calibrated and result.footprint.sram < 0.95 * result.stock_footprint.sram
    assert are_equal(shortcut(False), loads(result.tosa, "the answer"))
    run = result.run_or_error()
    assert run.chosen == "stock" and run.tables.keys() == {"stock", "explicit", "eqsat"}


GATES, WIDTH = 4, 64


def step() -> TensorGraph:
    """A step of a recurrent network: gates are slices of a sum with a product, and have tables of their own."""
    given, state = inputs(f"given:INT8[1,{GATES * WIDTH}] state:INT8[1,1,1,{WIDTH}]")
    total = state.layer(GATES * WIDTH, seed=1).reshape(1, GATES * WIDTH).plus(given)
    parts = [total.part(k * WIDTH, WIDTH, 1) for k in range(GATES)]
    tables = [part.table(np.roll(np.arange(-128, 128), 7 * k + 1)) for k, part in enumerate(parts)]
    wide = [x.rescale("INT32", in_zp=k) for k, x in enumerate(tables)]
    return outputs(*((x * y).rescale("INT8", shift=37) for x, y in zip(wide[::2], wide[1::2])))


def test_parts_of_products_are_products_of_parts() -> None:
    given = step()
    parts, source = in_parts(given)
    assert parts.op_counts()["conv2d"] == parts.op_counts()["add"] == GATES
    read = [parts.nodes[parts.nodes[n].inputs[0]].op for n in parts.live() if parts.nodes[n].op == "slice"]
    assert read == ["input"] * GATES  # the other operand is read in slices
    assert prove(given, parts).verdict == prove(given, before_sums(parts)).verdict == "proved"
    operators = [n for n in parts.live() if parts.nodes[n].op != "const"]
    assert {given.nodes[source[n]].op for n in operators if parts.nodes[n].op == "conv2d"} == {"conv2d"}
    assert set(operators) <= source.keys()


def test_a_slice_of_other_axes_or_of_no_product_stays() -> None:
    g = graph("x:INT8[1,4,4,16]", lambda x: (x.layer(16).part(1, 2, 1), x.part(4, 8, 3)))
    assert in_parts(g) == (g, {})


@pytest.mark.parametrize("is_first", [True, False])
def test_a_convolution_is_the_first_operand_of_its_sum(is_first: bool) -> None:
    """Vela runs the last operand first."""
    (x,) = inputs("x:INT8[1,8,8,16]")
    g = outputs(x.layer(16).plus(x.largest(1, 1)) if is_first else x.largest(1, 1).plus(x.layer(16)))
    arranged = before_sums(g)
    (total,) = (n for n in arranged.live() if arranged.nodes[n].op == "add")
    wide = arranged.nodes[arranged.nodes[total].inputs[0]]
    assert arranged.nodes[arranged.nodes[wide.inputs[0]].inputs[0]].op == "conv2d"
    assert (arranged is g) == is_first


@ON_THE_NEWEST_VELA
@pytest.mark.parametrize("target", [U55, U85], ids=str)
def test_gates_are_chained_on_u85(target: Target, pool: Pool) -> None:
    loop, start = Loop(Oracle(target, pool)), by_vela(step(), target, pool)
    end = loop.improve(State(target, Options()).with_graphs([start]), [Step(chains, 0.1)], lambda c: True)
    assert [c.by for c in end.graphs[1:]] == (["chains"] if target is U85 else [])
    if target is U85:
        (found,) = end.graphs[1:]
        assert found.figures.cycles < 0.95 * start.figures.cycles
        assert prove_binary(found.graph, binary_of(found.estimate.raw)).verdict == "proved"
