"""Tables of bounds, peers and memory, from records."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eqsat.report import RecordedRun
from eqsat.report.tables import models, standings

TARGET = "ethos-u55-128"
BOUND = {"macs": 1000, "weight_bytes": 10, "io_bytes": 10, "mac_cycles": 8.0, "roofline": 10.0, "operators": 20.0}


def record(model: str, configuration: str, cycles: int, **more: Any) -> dict[str, Any]:
    cell = {"model": model, "target": TARGET, "configuration": configuration, "verified": True}
    return {**cell, "cycles": cycles, "calibrated": cycles, "seconds": {}, "by_kind": {}, "memory": {}, **more}


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
    assert eqsat(run.over_peer) == {"a": 0.8, "b": 0.8, "c": 0.9}
    assert eqsat(run.over) == {"a": 4.0, "b": 8.0, "c": 9.0}
    assert eqsat(run.over, "operators") == {"a": 2.0, "b": 4.0, "c": 4.5}
    assert eqsat(run.utilisation)["a"] == pytest.approx(0.2)
    assert eqsat(run.to_baseline, "sram") == {"a": 0.5, "b": 2.0, "c": 1.0}
    assert eqsat(run.to_baseline, "pte_bytes") == {"a": 0.25, "b": 1.0, "c": 1.0}


def test_a_stock_graph_that_computes_something_else_is_compared_with_nothing() -> None:
    wrong, right = record("a", "stock", 50, verified=False), record("b", "stock", 100)
    run = run_of(wrong, right, record("a", "eqsat", 80), record("b", "eqsat", 90))
    assert run.by_model(TARGET, "eqsat", run.to_baseline) == {"b": 0.9} and run.baseline("a", TARGET) is None
    (row,) = (row for row in models(run, TARGET).rows if row[0] == "a")
    assert row[:4] == ("a", "not stock", "50", "80")
    beside = run_of(*run.records.values(), record("a", "stock-without-layout-passes", 100))
    assert beside.to_baseline("a", TARGET, "eqsat") == 0.8


def test_eqsat_stands_beside_stock_and_beside_stock_at_its_best() -> None:
    run = run_of(
        record("a", "stock", 200, calibrated=100),
        record("a", "stock-best", 120, calibrated=60),
        record("a", "litert", 110, calibrated=50, cpu_operators=0),
        record("a", "eqsat", 80, calibrated=45),
    )
    table = standings(run)
    row = dict(zip(table.header, next(row for row in table.rows if row[1] == "eqsat")))
    assert (row["to stock"], row["to stock-best"], row["to peer"]) == ("0.450", "0.750", "0.900")
    assert (row["Vela's total"], row["worst"], row["losses"]) == ("0.400", "0.900 a", "0")
    del run.records["a", TARGET, "litert"]
    assert run.over_peer("a", TARGET, "eqsat") == 0.75
    del run.records["a", TARGET, "stock-best"]
    assert not {"to stock-best", "to peer"} & set(standings(run).header)
