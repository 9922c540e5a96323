"""The recorded run of the zoo as a report: what is compared, drawn and said, without a benchmark being run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eqsat.bench.records import read_outlines
from eqsat.report import RecordedRun, compare
from eqsat.report.data import geometric_mean
from eqsat.report.tables import standings
from eqsat.report.write import by_kind, markdown

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
