"""Tables of bounds, peers and memory, from records."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eqsat.report.data import RecordedRun
from eqsat.report.table import markdown
from eqsat.report.tables import bounds, excess, headline, standings

TARGET = "ethos-u55-128"
BOUND = {"macs": 1000, "weight_bytes": 10, "io_bytes": 10, "mac_cycles": 8.0, "roofline": 10.0, "operators": 20.0}


def record(model: str, configuration: str, cycles: int, **more: Any) -> dict[str, Any]:
    return {
        "model": model,
        "target": TARGET,
        "configuration": configuration,
        "cycles": cycles,
        "by_operator": {},
    } | more


def run_of(*records: dict[str, Any]) -> RecordedRun:
    return RecordedRun(Path(), {(r["model"], r["target"], r["configuration"]): r for r in records})


def memory(peak: int, pte: int) -> dict[str, Any]:
    return {"memory": {"Sram": {"peak": peak, "read": 0, "written": 0}}, "pte_bytes": pte}


def whole() -> RecordedRun:
    """LiteRT is the better peer of a, leaves an operator of b to the CPU, and fails for c."""
    return run_of(
        record("a", "stock", 100, bound=BOUND, **memory(1000, 4000)),
        record("a", "litert", 50, cpu_operators=0, tflite_bytes=5),
        record("a", "eqsat", 40, bound=BOUND, **memory(500, 1000)),
        record("b", "stock", 100, bound=BOUND, **memory(1000, 4000)),
        record("b", "litert", 10, cpu_operators=1, tflite_bytes=5),
        record("b", "eqsat", 80, bound=BOUND, **memory(2000, 4000)),
        record("c", "stock", 100, bound=BOUND, **memory(1000, 4000)),
        {"model": "c", "target": TARGET, "configuration": "litert", "error": "no"},
        record("c", "eqsat", 90, bound=BOUND, **memory(1000, 4000)),
    )


def test_the_better_peer_is_of_those_that_leave_nothing_to_the_cpu() -> None:
    run = whole()
    assert [p and p["cycles"] for p in (run.peer(m, TARGET) for m in "abc")] == [50, 100, 100]
    eqsat = partial(run.by_model, TARGET, "eqsat")
    assert eqsat(run.over_peer, "cycles") == {"a": 0.8, "b": 0.8, "c": 0.9}
    assert eqsat(run.over) == {"a": 4.0, "b": 8.0, "c": 9.0}
    assert eqsat(run.over, "operators") == {"a": 2.0, "b": 4.0, "c": 4.5}
    assert eqsat(run.utilisation)["a"] == pytest.approx(0.2)
    assert eqsat(run.to_baseline, "sram") == {"a": 0.5, "b": 2.0, "c": 1.0}
    assert eqsat(run.to_baseline, "pte_bytes") == {"a": 0.25, "b": 1.0, "c": 1.0}


def test_a_stock_graph_that_computes_something_else_is_compared_with_nothing() -> None:
    run = run_of(
        record("a", "stock", 50, verified=False),
        record("a", "eqsat", 80),
        record("b", "stock", 100),
        record("b", "eqsat", 90),
    )
    assert run.by_model(TARGET, "eqsat", run.to_baseline) == {"b": 0.9} and run.baseline("a", TARGET) is None
    (row,) = (line for line in markdown(headline(run)) if line.startswith("| a "))
    assert "50" not in row and "80" in row and "1.6" not in row
    beside = run_of(*run.records.values(), record("a", "stock-without-layout-passes", 100))
    assert beside.to_baseline("a", TARGET, "eqsat") == 0.8


@pytest.mark.parametrize("total", ["corrected", "calibrated"])
def test_other_totals_stand_beside_velas(total: str) -> None:
    """The better peer by one total is not that by the other."""
    run = run_of(
        record("a", "stock", 100, **{total: 50}),
        record("a", "litert", 80, **{total: 80}, cpu_operators=0),
        record("a", "eqsat", 60, **{total: 40}),
        record("b", "stock", 100),  # of before there was this one
        record("b", "eqsat", 60),
    )
    eqsat = partial(run.by_model, TARGET, "eqsat")
    assert eqsat(run.over_peer, "cycles") == {"a": 0.75, "b": 0.6}
    assert eqsat(run.to_baseline, total) == {"a": 0.8} and eqsat(run.over_peer, total) == {"a": 0.8}
    assert not any(f"{total} cycles" in line for line in markdown(headline(run)))
    whole_run = run_of(*(r for r in run.records.values() if r["model"] == "a"))
    assert any(f"{total} cycles" in line for line in markdown(headline(whole_run)))


def test_eqsat_stands_beside_stock_and_beside_stock_at_its_best() -> None:
    run = run_of(
        record("a", "stock", 200, corrected=160, calibrated=100),
        record("a", "stock-best", 120, corrected=110, calibrated=60),
        record("a", "litert", 110, corrected=100, calibrated=50, cpu_operators=0),
        record("a", "eqsat", 90, corrected=80, calibrated=45),
    )
    table = standings(run)
    row = dict(zip(table.header, next(row for row in table.rows if row[1] == "eqsat")))
    assert (row["to stock"], row["to peer"], row["corrected"]) == ("0.450", "0.818", "0.500")
    assert (row["calibrated"], row["calibrated to peer"], row["to stock-best"]) == ("0.450", "0.900", "0.750")
    lines = markdown(headline(run))
    assert "## eqsat against stock-best, calibrated cycles" in lines
    assert [line for line in lines if line.startswith("| a ")][-1] == "| a | 60 | 45 | 0.750 |"
    del run.records["a", TARGET, "litert"]
    assert run.over_peer("a", TARGET, "eqsat", "calibrated") == 0.75
    del run.records["a", TARGET, "stock-best"]
    assert "to stock-best" not in standings(run).header and not any(
        "stock-best" in line for line in markdown(headline(run))
    )


def test_standings_in_words() -> None:
    rows = {row[1]: row for row in standings(whole()).rows}
    assert rows["stock"][2:] == (
        "3",
        "-",
        "1.260",
        "-",
        "-",
        "-",
        "2.000 a",
        "-",
        "10.000",
        "5.000",
        "8.0%",
        "1.000",
        "1.000",
    )
    assert rows["eqsat"][2:10] == ("3", "0.660", "0.832", "-", "-", "-", "0.900 c", "0") and rows["eqsat"][13:] == (
        "1.000",
        "0.630",
    )
    assert rows["litert"][2] == "2" and rows["litert"][8] == "1.000 a"  # its bound is that of the model's other cells
    alone = standings(run_of(record("a", "stock", 100), record("a", "eqsat", 90)))
    assert [row[3:] for row in alone.rows] == [("-",) * 12, ("0.900", "-", "-", "-", "-", "0.900 a", "0", *("-",) * 5)]


def test_columns_are_aligned_and_markdown_has_as_many() -> None:
    table = standings(whole())
    lines = table.plain()
    assert len({line.index(word) + len(word) for line, word in zip(lines, ("to peer", "1.260", "1.000", "0.832"))}) == 1
    assert {line.count("|") for line in table.markdown()} == {len(table.header) + 1}


def test_bounds_by_model() -> None:
    table = bounds(whole(), TARGET)
    rows = {row[0]: dict(zip(table.header, row)) for row in table.rows}
    assert rows["a"]["roofline"] == "10" and rows["a"]["eqsat: over roofline"] == "4.00"
    assert rows["a"]["eqsat: SRAM, KiB"] == "0.5" and rows["b"]["litert: over roofline"] == "-"
    assert rows["c"]["litert: over roofline"] == rows["c"]["litert: file, KiB"] == "-"


def test_excess_is_a_mean_of_shares_of_each_models_cycles() -> None:
    def operators(**cycles: tuple[int, float, int]) -> dict[str, Any]:
        return {k: {"cycles": c, "ideal": i, "waiting": w} for k, (c, i, w) in cycles.items()}

    run = run_of(
        record("a", "stock", 100, by_operator=operators(Conv2D=(80, 20.0, 50), Transpose=(20, 0.0, 0))),
        record("b", "stock", 1000, by_operator=operators(Conv2D=(1000, 900.0, 300))),  # what it needs is waiting too
        record("a", "litert", 50, cpu_operators=0, by_operator={"Conv2D": {"cycles": 50}}),
    )
    assert run.excess(TARGET, "stock") == {
        "Conv2D": pytest.approx((0.05, 0.30)),
        "Transpose": pytest.approx((0.10, 0.0)),
    }
    assert run.excess(TARGET, "litert") == {}
    table = excess(run, TARGET)
    assert table.header == ("operator", "stock: computing", "stock: waiting")
    assert table.rows[0] == ("Conv2D", "5.0%", "30.0%") and table.rows[-1] == ("others", "0.0%", "0.0%")


def test_records_without_bounds_have_fewer_tables() -> None:
    run = run_of(record("a", "stock", 100))
    assert not bounds(run, TARGET).rows and not excess(run, TARGET).rows and standings(run).rows
