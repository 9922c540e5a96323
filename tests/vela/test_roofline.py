"""Lower bounds: by hand on small graphs, at the rates that Vela has configured, and below every total."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from cost_models.machine import hardware_of
from eqsat.ground.worker import Worker
from eqsat.target import ACCELERATORS, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import Footprint, compile_graph
from eqsat.vela.roofline import Bound, Rates, bound, by_operator, over_bound
from tests.graphs import TARGETS, channel_shuffle, conv_graph, residual, transposed_relus
from tests.term import Term, graph, inputs, outputs

RATES = Rates(macs=100, weights=2.0, activations=10.0, clock=1e9)


def strided() -> TensorGraph:
    """A convolution along W that Vela cuts into many."""
    weights = np.random.default_rng(0).integers(-127, 128, (64, 1, 20, 16))
    return graph("x:INT8[1,1,400,16]", lambda x: x.conv(weights, np.zeros(64), stride=(1, 10)).rescale("INT8"))


def convolved(op: str, shape: tuple[int, ...], outputs: int, **window: tuple[int, ...]) -> Callable[[Term], Term]:
    return lambda x: x.conv(np.ones(shape), np.zeros(outputs), op=op, **window)


@pytest.mark.parametrize(
    "inputs, made, macs",
    [
        ("x:INT8[1,8,6,3]", convolved("conv2d", (5, 3, 2, 3), 5, pad=(1, 1, 0, 0)), 8 * 5 * 5 * 3 * 2 * 3),
        ("x:INT8[1,8,6,3]", convolved("depthwise_conv2d", (3, 3, 3, 2), 6), 6 * 4 * 6 * 9),
        ("x:INT8[1,4,4,3]", convolved("transpose_conv2d", (5, 2, 2, 3), 5, stride=(2, 2)), 4 * 4 * 3 * 5 * 2 * 2),
        ("a:INT8[2,5,7] b:INT8[2,7,3]", Term.matmul, 2 * 5 * 3 * 7),
    ],
)
def test_macs_by_hand(inputs: str, made: Callable[..., Term], macs: int) -> None:
    assert bound(graph(inputs, made), RATES).macs == macs


def test_the_largest_of_three_and_the_sum_by_operators() -> None:
    """A product of many MACs and few weights, then one of few MACs and many weights."""
    (x,) = inputs("x:INT8[1,16,16,8]")
    g = outputs(x.layer(8).slice((0, 0, 0, 0), (1, 1, 1, 8)).layer(1000, seed=2))
    (k, *_), (m, *_) = ([g.type(i) for i in g.nodes[n].inputs[1:2]] for n in _convolutions(g))
    macs = 256 * k.bytes + m.bytes
    found = bound(g, RATES)
    assert (found.macs, found.weight_bytes) == (macs, k.bytes + m.bytes)
    assert found.io_bytes == 16 * 16 * 8 + g.type(g.outputs[0]).bytes
    assert found.roofline == max(macs / 100, found.weight_bytes / 2, found.io_bytes / 10)
    assert found.operators == pytest.approx(256 * k.bytes / 100 + m.bytes / 2) and found.operators > found.roofline


def _convolutions(g: TensorGraph) -> list[int]:
    return [n for n in g.live() if g.nodes[n].op == "conv2d"]


def test_shared_weights_are_read_once_for_the_roofline() -> None:
    g = graph("x:INT8[1,1,1,64]", lambda x: x.layer(64).layer(64))  # equal weights are one constant
    found = bound(g, RATES)
    assert found.weight_bytes == g.type(g.nodes[_convolutions(g)[0]].inputs[1]).bytes
    assert found.operators == pytest.approx(2 * found.weight_bytes / 2)


def test_bounds_and_footprints_of_delegates_add_up() -> None:
    assert Bound.together([Bound(1, 2, 3, 4.0, 5.0, 6.0)] * 2) == Bound(2, 4, 6, 8.0, 10.0, 12.0)
    sram = {"peak": 7, "read": 1, "written": 2}
    a = Footprint(7, 1, 2, 16, {"Sram": sram})
    b = Footprint(5, 1, 2, 16, {"Sram": sram | {"peak": 5}, "Dram": {"peak": 1, "read": 0, "written": 1}})
    both = {"Sram": {"peak": 7, "read": 2, "written": 4}, "Dram": {"peak": 1, "read": 0, "written": 1}}
    assert Footprint.together([a, b]) == Footprint(7, 2, 4, 32, both)


@pytest.mark.parametrize("name", ACCELERATORS)
def test_rates_are_those_of_the_closed_forms(name: str, worker: Worker) -> None:
    """Asked of Vela here, read from its configuration file there."""
    target = Target.of(name)
    rates, machine = compile_graph(conv_graph(), target, worker).rates, hardware_of(target)
    assert rates.macs == machine.core.macs * (machine.core.cores if "u65" in name else 1)
    assert (rates.weights, rates.activations) == (machine.constants.bandwidth, machine.activations.bandwidth)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", [residual, transposed_relus, channel_shuffle, strided])
def test_no_total_is_below_the_roofline(build, target: str, worker: Worker) -> None:
    g = build()
    estimate = compile_graph(g, Target.of(target), worker)
    found = bound(g, estimate.rates)
    assert 0 < found.mac_cycles <= found.roofline <= found.operators and found.roofline < estimate.cycles
    rows = over_bound(estimate.rows, dumps(g), estimate.rates)
    assert sum(r.mac_cycles for r in rows) == pytest.approx(found.mac_cycles)
    assert all(0 <= r.waiting <= r.cycles for r in rows)
    table = by_operator(rows)
    assert sum(t["cycles"] for t in table.values()) == estimate.cycles
    assert table["Conv2D"]["ideal"] == pytest.approx(sum(r.ideal for r in rows))


def test_an_operator_that_vela_cuts_reads_its_weights_once_in_the_ideal(worker: Worker) -> None:
    g = strided()
    estimate = compile_graph(g, Target.of("ethos-u55-128"), worker)
    rows = over_bound(estimate.rows, dumps(g), estimate.rates)
    convolutions = [r for r in rows if r.operator == "Conv2D"]
    assert len(convolutions) > 10
    assert sum(r.ideal for r in convolutions) == pytest.approx(64 * 20 * 16)  # a byte a cycle out of flash
    assert sum(r.waiting for r in convolutions) > 64 * 20 * 16
