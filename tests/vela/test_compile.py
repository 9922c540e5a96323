"""Vela in process gives the command line's totals."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_graph
from tests.graphs import channel_shuffle, conv_graph, residual, transposed_relus

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
BUILDERS = (residual, transposed_relus, channel_shuffle)


@pytest.mark.parametrize(("build", "target"), zip(BUILDERS, TARGETS, strict=True))
def test_total_is_the_command_lines(build, target: str, worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "graph.tosa"
    path.write_bytes(dumps(build()))
    vela = Path(sys.executable).parent / "vela"
    command = [vela, *Target.of(target).flags, f"--output-dir={tmp_path}", path]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    (summary,) = tmp_path.glob("*_summary_*.csv")
    with summary.open() as f:
        (row,) = csv.DictReader(f)
    estimate = compile_graph(build(), Target.of(target), worker)
    assert estimate.cycles == int(row["cycles_total"])
    columns = {"Sram": "sram", "Dram": "dram", "OnChipFlash": "on_chip_flash", "OffChipFlash": "off_chip_flash"}
    for name, column in columns.items():  # also where constants share the SRAM
        assert estimate.memory.get(name, {"peak": 0})["peak"] == 1024 * float(row[f"{column}_memory_used"])
    assert estimate.footprint.sram == estimate.memory["Sram"]["peak"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", BUILDERS)
def test_kinds_sum_to_the_total(build, target: str, worker: Worker) -> None:
    estimate = compile_graph(build(), Target.of(target), worker)
    assert sum(estimate.by_kind.values()) == estimate.cycles
    assert estimate.by_kind["convolution"] > 0
    assert all(figures for figures in estimate.memory.values())


def test_kinds_tell_data_movement_apart(worker: Worker) -> None:
    target = Target.of("ethos-u55-128")
    assert compile_graph(transposed_relus(), target, worker).by_kind["transpose"] > 0
    assert "transpose" not in compile_graph(residual(), target, worker).by_kind


@pytest.mark.parametrize(("target", "scales"), [("ethos-u55-128", 24), ("ethos-u85-256", 32)])
def test_rows_tell_whose_memory_it_is(target: str, scales: int, worker: Worker) -> None:
    """The peak is that of an operator; a convolution's weights are all but its scales, 10 bytes each, on U85 of
    channels in sixteens."""
    estimate = compile_graph(residual(), Target.of(target), worker)
    assert max(r.sram_bytes for r in estimate.rows) == estimate.footprint.sram
    assert all((r.weight_bytes > 0) == (r.operator == "Conv2D") for r in estimate.rows)
    single = compile_graph(conv_graph(), Target.of(target), worker)
    assert sum(r.weight_bytes for r in single.rows) == single.footprint.weights - 10 * scales > 0
