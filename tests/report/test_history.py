"""A run's history, from the commits that recorded it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from eqsat.report import RecordedRun, write
from eqsat.report.history import means, ratios, tables, versions_of

TARGET = "ethos-u85-256"


def record(model: str, configuration: str, cycles: int, vela: str = "5.2.0") -> dict[str, Any]:
    return {"model": model, "target": TARGET, "configuration": configuration, "cycles": cycles, "vela": vela} | {
        "verified": True,
        "by_kind": {"convolution": cycles},
        "by_operator": {},
        "seconds": {"vela": 1.0},
        "delegates": 0,
        "peak_mib": 1,
        "memory": {},
    }


def recorded(directory: Path, cycles: dict[str, int], commit: str = "") -> None:
    """Each model costs 100 cycles in stock; cycles: with eqsat."""
    lines = [r for m, c in cycles.items() for r in (record(m, "stock", 100), record(m, "eqsat", c))]
    directory.mkdir(exist_ok=True)
    (directory / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in lines))
    (directory / "run.json").write_text(json.dumps({"commit": commit} if commit else {}))


def git(place: Path, *command: str) -> str:
    own = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", "-C", place, *own, *command], check=True, capture_output=True, text=True).stdout


@pytest.fixture
def run(tmp_path: Path) -> RecordedRun:
    """Recorded twice; the second time with one model more, another a little slower, and a commit in run.json."""
    git(tmp_path, "init", "-q")
    for cycles, commit in (({"a": 50, "b": 80}, ""), ({"a": 60, "b": 20, "c": 70}, "0123456789abcdef")):
        recorded(tmp_path / "run", cycles, commit)
        git(tmp_path, "add", "-A")
        git(tmp_path, "commit", "-q", "-m", "recorded")
    return RecordedRun.read(tmp_path / "run")


def test_versions_are_those_of_the_commits(run: RecordedRun, tmp_path: Path) -> None:
    first = git(tmp_path, "log", "--format=%h", "--reverse").split()[0]
    assert [v.commit for v in versions_of(run)] == [first, "0123456789ab"]
    assert ratios(versions_of(run), TARGET, "eqsat") == [{"a": 0.5, "b": 0.8}, {"a": 0.6, "b": 0.2, "c": 0.7}]


def test_means_are_over_the_models_of_all(run: RecordedRun) -> None:
    assert means(ratios(versions_of(run), TARGET, "eqsat")) == pytest.approx([(0.5 * 0.8) ** 0.5, (0.6 * 0.2) ** 0.5])
    assert means([{}, {"a": 0.5}]) == [None, 0.5] and means([]) == []


def test_what_is_not_committed_yet_comes_last(run: RecordedRun) -> None:
    recorded(run.directory, {"a": 10})
    now = RecordedRun.read(run.directory)
    found = versions_of(now)
    assert len(found) == 3 and found[-1].run is now
    (table,) = tables(found, now)
    assert [row[0] for row in table.rows[1:]] == ["a", "b", "c"]
    assert table.rows[1][1:] == ("0.500", "0.600", "0.100") and table.rows[3][1:] == ("", "0.700", "")


def test_records_that_cannot_be_read_are_no_version(run: RecordedRun, tmp_path: Path) -> None:
    (run.directory / "records.jsonl").write_text("no JSON\n")
    git(tmp_path, "commit", "-q", "-a", "-m", "broken")
    recorded(run.directory, {"a": 10})
    assert len(versions_of(RecordedRun.read(run.directory))) == 3


def test_the_page_has_it_and_one_of_a_single_version_has_not(run: RecordedRun, tmp_path: Path) -> None:
    write(run, tmp_path / "report")
    page = (tmp_path / "report" / "index.html").read_text()
    assert 'id="history"' in page and "0123456, " in page
    recorded(tmp_path / "alone", {"a": 10})
    alone = RecordedRun.read(tmp_path / "alone")
    assert tables(versions_of(alone), alone) == []
    write(alone, tmp_path / "other")
    assert 'id="history"' not in (tmp_path / "other" / "index.html").read_text()
