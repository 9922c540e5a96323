"""The recorded run of the zoo as a report: what is compared, drawn and said, without a benchmark being run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eqsat.bench.records import read_outlines
from eqsat.report import RecordedRun, compare
from eqsat.report.data import geometric_mean
from eqsat.report.write import by_kind, markdown, models, standings

ROOT = Path(__file__).parents[2]
CELL = ("emg", "ethos-u85-256", "eqsat")


@pytest.fixture(scope="module")
def run() -> RecordedRun:
    return RecordedRun.read(ROOT / "benchmarks" / "results" / "calibrated")


def with_cell(run: RecordedRun, change: Callable[[dict[str, Any]], dict[str, Any]]) -> RecordedRun:
    return replace(run, records={**run.records, CELL: change(run.records[CELL])})


def scaled(factor: float) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda r: {**r, "calibrated": int(r["calibrated"] * factor)}


def test_a_run_is_no_worse_than_itself(run: RecordedRun) -> None:
    same = compare(run, run)
    assert same.changes == () and (same.common, same.only_new, same.only_old) == (len(run.records), 0, 0)


@pytest.mark.parametrize(
    ("change", "noise", "regressions", "improvements"),
    [
        (scaled(1.02), 0.005, 1, 0),
        (scaled(1.02), 0.05, 0, 0),
        (scaled(0.9), 0.005, 0, 1),
        (lambda r: {**r, "verified": False}, 0.005, 1, 0),
        (lambda r: {**{k: r[k] for k in ("model", "target", "configuration")}, "error": "killed"}, 0.005, 1, 0),
    ],
    ids=["more cycles", "within the noise", "fewer cycles", "not equal", "fails"],
)
def test_what_changed_is_found(run, change, noise: float, regressions: int, improvements: int) -> None:
    found = compare(with_cell(run, change), run, noise)
    assert (len(found.regressions), len(found.changes) - len(found.regressions)) == (regressions, improvements)
    assert all((c.model, c.target, c.configuration) == CELL for c in found.changes)


def test_a_cell_of_one_run_alone_is_no_change(run: RecordedRun) -> None:
    less = replace(run, records={k: r for k, r in run.records.items() if k != CELL})
    found = compare(run, less)
    assert found.changes == () and (found.only_new, found.only_old) == (1, 0)


def test_the_text_has_every_model_and_the_means(run: RecordedRun) -> None:
    text = markdown(run)
    assert all(f"| {m} |" in text for m in run.models) and all(t in text for t in run.targets)
    _, target, configuration = CELL
    cells = [(run.records[m, target, configuration], run.baseline(m, target)) for m in run.models]
    ratios = [ours["calibrated"] / stock["calibrated"] for ours, stock in cells]
    mean = geometric_mean(run.by_model(target, configuration, run.to_baseline).values())
    assert mean == pytest.approx(geometric_mean(ratios)) and f"{mean:.3f}" in "\n".join(standings(run).markdown())
    assert markdown(with_cell(run, scaled(1.5))) != text


@pytest.mark.slow
def test_the_graphs_before_and_after_are_kept_with_their_records(run: RecordedRun) -> None:
    kept = read_outlines(run.directory)
    for at, record in run.records.items():
        if at[2] in ("stock", "eqsat") and "error" not in record:
            assert at in kept, f"copy outlines.json.xz of the run beside its records: it has no {at}"
            counted = sum((Counter(g.op_counts()) for g in kept[at].graphs), Counter())
            assert counted == record["op_counts"], f"outlines.json.xz is of another run than the record of {at}"
            assert sum(row.cycles for rows in kept[at].rows for row in rows) == record["cycles"]


def test_bars_have_a_legend_of_what_occurs_and_cycles_are_shares_of_the_baselines(run: RecordedRun) -> None:
    (bars,) = by_kind(run, "eqsat", "ethos-u85-256")
    assert [sum(parts.values()) for name, parts, _ in bars.rows if name] == [pytest.approx(1)] * (len(bars.rows) // 2)
    only = {k: {**r, "by_kind": {"matmul": r["cycles"]}} for k, r in run.records.items() if "by_kind" in r}
    (bars,) = by_kind(replace(run, records=only), "eqsat", "ethos-u85-256")
    assert list(bars.legend) == ["matmul"]


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
