"""Records on disk: what an interruption tore is passed over, what is there is not made again."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from eqsat.bench.records import RunFiles
from eqsat.ground.files import InputError


def record(model: str, cycles: int) -> dict[str, Any]:
    return {"model": model, "target": "t", "configuration": "c", "cycles": cycles}


def kept(directory: Path) -> list[dict[str, Any]]:
    with closing(RunFiles(directory)) as files:
        return list(files.records.values())


def test_the_last_record_of_a_cell_counts_and_torn_lines_do_not(tmp_path: Path) -> None:
    lines = [json.dumps(record("a", 1)), json.dumps(record("b", 2)), json.dumps(record("a", 3)), '{"model": 7}', "[1]"]
    lines += [json.dumps({**record("c", 4), "model": ["no", "name"]}), json.dumps(record("c", 4))[:-5]]
    (tmp_path / "records.jsonl").write_bytes("\n".join(lines).encode() + b"\xff\x00")
    assert kept(tmp_path) == [record("a", 3), record("b", 2)]


def test_a_run_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(record("a", 1)) + '\n{"model": "b", "tar')
    with closing(RunFiles(tmp_path)) as files:
        files.add(record("b", 2))
        files.add(record("a", 5))
        assert [json.loads(line)["cycles"] for line in path.read_text().splitlines()] == [5, 2]
        files.sort([("b", "t", "c"), ("x", "t", "c")])
    assert kept(tmp_path) == [record("b", 2), record("a", 5)]


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "records.jsonl").mkdir()
    with pytest.raises(InputError, match="records.jsonl"):
        RunFiles(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot make .*file/run/graphs: .* with --out"):
        RunFiles(tmp_path / "file" / "run")
