"""Vela in process: the command line's totals, the rows of its table, and the bytes of SRAM in use."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cost_models.machine import hardware_of
from eqsat.ground.worker import Pool, Worker
from eqsat.target import ACCELERATORS, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.tosa.locations import Origin
from eqsat.vela.compile import Footprint, compile_tosa
from eqsat.vela.roofline import Bound, Rates, bound, by_operator, over_bound
from eqsat.vela.table import InSram, Row, get_occupied, in_use
from tests.command import run_vela
from tests.graphs import TARGETS, channel_shuffle, compile_graph, conv_graph, residual, transposed_relus
from tests.term import Term, graph, inputs, outputs

BUILDERS = (residual, transposed_relus, channel_shuffle)


@pytest.mark.parametrize(("build", "target"), zip(BUILDERS, TARGETS, strict=True))
def test_total_is_the_command_lines(build, target: str, worker: Worker, tmp_path: Path) -> None:
    run_vela(dumps(build()), target, tmp_path)
    (summary,) = tmp_path.glob("*_summary_*.csv")
    with summary.open() as f:
        (row,) = csv.DictReader(f)
    estimate = compile_graph(build(), Target.of(target), worker)
    assert estimate.cycles == int(row["cycles_total"])
    columns = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}
    for name, column in columns.items():  # also where constants share the SRAM
        assert estimate.memory.get(name, {"peak": 0})["peak"] == 1024 * float(row[f"{column}_memory_used"])
    assert estimate.footprint.sram == estimate.memory["Sram"]["peak"]


@pytest.mark.parametrize("target", TARGETS[:2])
def test_kinds_tell_data_movement_apart_and_sum_to_the_total(target: str, worker: Worker) -> None:
    """U85 transposes what a convolution writes without an operator of its own."""
    moves, plain = (compile_graph(g, Target.of(target), worker) for g in (transposed_relus(), residual()))
    for estimate in (moves, plain):
        assert sum(estimate.by_kind.values()) == estimate.cycles and estimate.by_kind["convolution"] > 0
        assert all(estimate.memory.values())
    assert moves.by_kind["transpose"] > 0 and "transpose" not in plain.by_kind


@pytest.mark.parametrize(("target", "scales"), [("ethos-u55-128", 24), ("ethos-u85-256", 32)])
def test_rows_tell_whose_memory_it_is(target: str, scales: int, worker: Worker) -> None:
    """The peak is an operator's; a convolution's weights are all but its scales: 10 bytes each, on U85 in sixteens."""
    estimate = compile_graph(residual(), Target.of(target), worker)
    assert max(r.sram_bytes for r in estimate.rows) == estimate.footprint.sram
    assert all((r.weight_bytes > 0) == (r.operator == "Conv2D") for r in estimate.rows)
    single = compile_graph(conv_graph(), Target.of(target), worker)
    assert sum(r.weight_bytes for r in single.rows) == single.footprint.weights - 10 * scales > 0


ROW = Row("Conv2D", "n3/1", 120, 100, 4096, 80, 3072, 64, 16, "n3")
TOLD = {
    **{"corrected": 120, "operator": "Conv2D", "name": "n3/1"},
    **{"op_cycles": "120", "npu_cycles": "100", "mac_count": "4096"},
    **{"busy_cycles": 80, "sram_bytes": 3072, "weight_bytes": 64, "command_bytes": 16, "source": "n3"},
}


def test_a_record_has_velas_columns_as_text() -> None:
    assert ROW.record() == TOLD and list(ROW.record()) == list(TOLD)


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        replace(ROW, mac_cycles=1.5, ideal=2.0, waiting=0, origins=()),
        replace(ROW, source="", origins=(Origin("conv", "layers.0", "torch.nn.Conv2d", 6), Origin("relu"))),
    ],
)
def test_a_record_is_read_as_it_was(row: Row) -> None:
    assert Row.read(json.loads(json.dumps(row.record()))) == row


@pytest.mark.parametrize("damaged", [{}, {**TOLD, "op_cycles": "many"}, {**TOLD, "new": 1}, [], "row"])
def test_damage_is_found(damaged) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        Row.read(damaged)


def in_place() -> TensorGraph:
    """A sum that is widened to INT32 and narrowed again, and a CONCAT of two convolutions."""
    (x,) = inputs("x:INT8[1,16,16,16]")
    wide = x.layer(16, seed=1).plus(x.layer(16, seed=2))
    return outputs(wide.concat(wide.layer(16, seed=3), axis=3).layer(4, seed=4))


@pytest.mark.parametrize(("target", "is_shared"), [("ethos-u55-128", True), ("ethos-u85-256", False)])
def test_the_most_bytes_in_use_are_velas_peak(target: str, is_shared: bool, pool: Pool) -> None:
    """On U85 no tensor of this graph is in place of another."""
    estimate = compile_tosa(dumps(in_place()), Target.of(target), pool)
    used = in_use(estimate.tensors, get_occupied(estimate.tensors))
    sizes = [0] * len(used)
    for t in estimate.tensors:
        for step in range(t.first, t.last + 1):
            sizes[step] += t.end - t.address
    assert used.max() == estimate.sram_peak
    assert (max(sizes) > estimate.sram_peak) == is_shared


def test_shared_bytes_are_counted_once() -> None:
    whole, part, later = InSram("concat", 0, 4, 0, 32), InSram("operand", 0, 2, 16, 32), InSram("y", 3, 4, 32, 40)
    tensors = [whole, part, later]
    assert in_use(tensors, get_occupied(tensors)).tolist() == [32, 32, 32, 40, 40]
    assert [own.tolist() for own in get_occupied([whole, part])] == [[16, 16, 16, 32, 32], [16, 16, 16]]
    assert in_use([], get_occupied([])).tolist() == [0]


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
