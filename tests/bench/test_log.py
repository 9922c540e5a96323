"""Records on disk: what an interruption tore is passed over, what is there is not made again."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path

import pytest

from eqsat.bench.log import Log, read
from eqsat.ground.files import InputError

CELL = itemgetter("model", "target")


def record(model: str, cycles: int, target: str = "t") -> dict:
    return {"model": model, "target": target, "cycles": cycles}


def test_the_last_record_of_a_cell_counts_and_torn_lines_do_not(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    lines = [json.dumps(record("a", 1)), json.dumps(record("b", 2)), json.dumps(record("a", 3)), '{"model": 7}', "[1]"]
    path.write_bytes("\n".join([*lines, json.dumps(record("c", 4))[:-5]]).encode() + b"\xff\x00")
    assert read(path, CELL) == {("a", "t"): record("a", 3), ("b", "t"): record("b", 2)}


def test_a_log_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    path.write_text(json.dumps(record("a", 1)) + '\n{"model": "b", "tar')
    log = Log(path, CELL)
    log.add(record("b", 2))
    log.add(record("a", 5))
    assert Log(path, CELL).records == {("a", "t"): record("a", 5), ("b", "t"): record("b", 2)}
    assert [json.loads(line)["cycles"] for line in path.read_text().splitlines()] == [5, 2]


def test_refused_records_go_and_order_is_as_wanted(tmp_path: Path) -> None:
    path = tmp_path / "records.jsonl"
    for model, cycles in (("a", 1), ("b", 2), ("c", 3)):
        Log(path, CELL).add(record(model, cycles))
    log = Log(path, CELL, lambda r: r["cycles"] > 1)
    log.sort([("c", "t"), ("x", "t")])
    assert list(read(path, CELL).values()) == [record("c", 3), record("b", 2)]


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="records.jsonl"):
        (tmp_path / "records.jsonl").mkdir()
        Log(tmp_path / "records.jsonl", CELL)
    with pytest.raises(InputError, match="absent"):
        Log(tmp_path / "absent" / "records.jsonl", CELL)
