"""A few changes to one binary: what matters is noticed, and the summary counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.changed_binaries import CHANGES, STUDY, TARGETS, share
from benchmarks.study import read_lines
from tests.sweeps import some

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", some(TARGETS, 1))
def test_changes_are_noticed(target: str, tmp_path: Path) -> None:
    STUDY.main(["--targets", target, "--graphs", "1", "--changes", "4", "--out", str(tmp_path)])
    records = read_lines(tmp_path / "records.jsonl")
    assert len(records) == 4 * len(CHANGES)
    commands = [r for r in records if "constants" not in r["kind"]]
    assert share(commands) >= 0.9
    assert any(r["outcome"] == "wrong" for r in records)
    text = (tmp_path / "table.md").read_text()
    assert f"| all | {len(records)} |" in text and "Without effect" in text
