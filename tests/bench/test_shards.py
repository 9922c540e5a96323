"""Parts of a run: together they are the whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from eqsat.bench import run
from eqsat.bench.records import read_outlines, read_records
from eqsat.bench.shards import Shard, merged
from eqsat.cli.app import app
from eqsat.ground.files import InputError
from eqsat.report import RecordedRun
from tests.bench.runs import EXPLICIT, figures, tosa_files

CONFIGURATIONS = [EXPLICIT, "eqsat:effort=1"]
TARGETS = ["ethos-u85-256", "ethos-u55-128"]


def test_each_cell_has_one_shard() -> None:
    models, targets = ["a", "b", "c", "d", "e"], ["t", "u", "v"]
    for of in range(1, 16):
        parts = [Shard(i + 1, of).pairs(models, targets) for i in range(of)]
        assert sorted(p for part in parts for p in part) == sorted((m, t) for m in models for t in targets)
        assert {len(part) for part in parts} <= {15 // of, 15 // of + 1}
        assert of > 3 or all({t for _, t in part} == set(targets) for part in parts)


@pytest.mark.parametrize("text", ["", "0/2", "3/2", "1", "1/0", "-1/2", "a/b", "1/2/3"])
def test_what_is_no_shard(text: str) -> None:
    with pytest.raises(InputError, match="is no shard"):
        Shard.parse(text)


def test_a_shard_without_work_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing is left for shard 9/9"):
        run(tosa_files(tmp_path), TARGETS, CONFIGURATIONS, tmp_path / "run", shard=Shard(9, 9))


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_two_shards_are_one_run(tmp_path: Path) -> None:
    models, targets = tosa_files(tmp_path), TARGETS[:1]
    whole = run(models, targets, CONFIGURATIONS, tmp_path / "whole")
    parts = [tmp_path / f"part{i}" for i in (1, 2)]
    for i, part in enumerate(parts, 1):
        several = (("--models", models), ("--targets", targets), ("-c", CONFIGURATIONS))
        each = [x for option, values in several for value in values for x in (option, value)]
        done = CliRunner().invoke(app, ["bench", *each, "--shard", f"{i}/2", "--out", str(part)])
        assert done.exit_code == 0, done.output
    assert [len(read_records(p)) for p in parts] == [2, 2]
    done = CliRunner().invoke(app, ["report", *map(str, reversed(parts)), "--into", str(tmp_path / "joined")])
    assert done.exit_code == 0, done.output
    assert figures(read_records(tmp_path / "joined")) == figures(whole)
    assert read_outlines(tmp_path / "joined").keys() == read_outlines(tmp_path / "whole").keys()
    for kind in ("graphs", "chosen"):
        files = {f.name: f.read_bytes() for f in (tmp_path / "whole" / kind).glob("*.tosa")}
        assert files == {f.name: f.read_bytes() for f in (tmp_path / "joined" / kind).glob("*.tosa")}
    lines: list[str] = []
    again = run(models, targets, CONFIGURATIONS, tmp_path / "joined", progress=lambda d, t, what: lines.append(what))
    assert sum("there already" in t for t in lines) == 4 and figures(again) == figures(whole)
    assert (tmp_path / "joined/report/index.html").exists() and RecordedRun.read(tmp_path / "joined").about["models"]


def written(directory: Path, cycles: int | None, **about: object) -> Path:
    directory.mkdir()
    record = {"model": "m", "target": "ethos-u85-256", "configuration": "eqsat"}
    figures = {"cycles": cycles, "verified": True, "peak_mib": 1.5}
    figures |= {name: {} for name in ("by_kind", "by_operator", "seconds", "memory")}
    found = {"error": "lost", "lost": True} if cycles is None else figures
    (directory / "records.jsonl").write_text(json.dumps({**record, "key": "k", **found}) + "\n")
    plan = {"names": ["m"], "targets": ["ethos-u85-256"], "configurations": ["eqsat"]}
    (directory / "run.json").write_text(json.dumps({**plan, **about}))
    return directory


def test_a_cell_with_figures_counts(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", None), written(tmp_path / "b", 7), written(tmp_path / "c", None)]
    merged(runs, tmp_path / "joined")
    (record,) = read_records(tmp_path / "joined")
    assert record["cycles"] == 7


def test_runs_that_are_no_shards_of_one(tmp_path: Path) -> None:
    a, b = written(tmp_path / "a", 5, commit="x"), written(tmp_path / "b", 5, commit="y")
    with pytest.raises(InputError, match="differ in commit"):
        merged([a, b], tmp_path / "joined")
    (b / "run.json").unlink()
    with pytest.raises(InputError, match=r"b has no run\.json"):
        merged([a, b], tmp_path / "joined")
    done = CliRunner().invoke(app, ["report", str(a), str(b)])
    assert done.exit_code == 2 and "--into" in done.output
