"""Planted errors are errors, and the benchmark sees which of them pass."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.planted_errors import rules
from benchmarks.planted_errors.__main__ import STUDY
from benchmarks.planted_errors.edits import applied, edits
from benchmarks.planted_errors.run import Trial
from benchmarks.planted_errors.subjects import head
from benchmarks.study import read_lines
from eqsat.ground.worker import Pool


@pytest.mark.slow
def test_none_of_a_few_passes(tmp_path: Path) -> None:
    assert STUDY.main(["--heads", "rescales,selection,choice", "--edits", "3", "--out", str(tmp_path)]) == 0
    found = read_lines(tmp_path / "records.jsonl")
    assert sum(r["changes"] for r in found) >= 8 and not any(r["passes"] for r in found)
    assert {r["inputs"] for r in found} == {1, 2, 3}
    assert "**0**" in (tmp_path / "table.md").read_text()


def test_what_changes_nothing_is_left_out(pool: Pool) -> None:
    """A clamp after a table that gives less than its limit."""
    subject = head("chain", "INT8", 8, False)
    trial = Trial(subject, pool)
    found = [applied(subject.graph, e) for e in edits(subject.graph) if e.kind == "wrong table entry"]
    results = [trial.planted("wrong table entry", "", f) for f in found if f is not None]
    assert any(r is not None and r["equivalent"] for r in results)
    assert all(r is not None and not r["passes"] for r in results if r is not None and r["changes"])


def test_a_wrong_rule_gives_wrong_graphs_that_do_not_pass(pool: Pool) -> None:
    wrong = next(r for r in rules.WRONG if r.name == "binary-commutes")
    subject = head("subtraction", "INT8", 8, True)
    trial = Trial(subject, pool)
    results = [trial.planted(wrong.name, "", g) for g in rules.graphs_with(wrong, subject.graph, 1)]
    assert any(r is not None and r["changes"] for r in results)
    assert not any(r is not None and r["passes"] for r in results)
