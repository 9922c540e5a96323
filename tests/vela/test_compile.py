"""Vela in process: the command line's totals, the rows of its table, and the bytes of SRAM in use."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.tosa.locations import Origin
from eqsat.vela.compile import compile_graph, compile_tosa
from eqsat.vela.occupancy import get_occupied, in_use
from eqsat.vela.table import InSram, Row
from tests.command import run_vela
from tests.graphs import TARGETS, channel_shuffle, conv_graph, residual, transposed_relus
from tests.term import inputs, outputs

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
    """The peak is that of an operator; a convolution's weights are all but its scales, 10 bytes each, on U85 of
    channels in sixteens."""
    estimate = compile_graph(residual(), Target.of(target), worker)
    assert max(r.sram_bytes for r in estimate.rows) == estimate.footprint.sram
    assert all((r.weight_bytes > 0) == (r.operator == "Conv2D") for r in estimate.rows)
    single = compile_graph(conv_graph(), Target.of(target), worker)
    assert sum(r.weight_bytes for r in single.rows) == single.footprint.weights - 10 * scales > 0


ROW = Row("Conv2D", "n3/1", 120, 100, 4096, 80, 3072, 64, 16, "n3")
TOLD = {
    **{
        "corrected": 120,
        "operator": "Conv2D",
        "name": "n3/1",
        "op_cycles": "120",
        "npu_cycles": "100",
        "mac_count": "4096",
    },
    **{"busy_cycles": 80, "sram_bytes": 3072, "weight_bytes": 64, "command_bytes": 16, "source": "n3"},
}


def test_a_record_has_velas_columns_as_text() -> None:
    assert ROW.record() == TOLD and list(ROW.record()) == list(TOLD)


@pytest.mark.parametrize(
    "row",
    [
        ROW,
        replace(ROW, source=None),
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
