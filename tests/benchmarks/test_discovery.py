"""The study of discovery: its graphs, one family blind, news of one graph, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import discovery
from benchmarks.discovery import cut, families, planted, without
from eqsat.rules import RULES
from eqsat.tosa.flatbuffer import dumps
from tests.graphs import channel_shuffle, conv_graph


def test_a_family_is_left_out() -> None:
    gone = set(RULES) - set(without("matmul"))
    assert gone == {r for r in RULES if r.family == "matmul" and not r.analysis} and "matmul" in families()
    assert set(families()) <= planted().keys()
    assert all(dumps(g) for g in planted().values())


def test_no_graph_hides_another(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.ethos-u85-256.tosa").write_bytes(dumps(channel_shuffle()))
    first, second, *rest = (name for name, _ in cut(tmp_path, "ethos-u85-256"))
    assert (first[0], second[0]) == ("a", "b") and [name[0] for name in rest] == ["a", "b"] * (len(rest) // 2)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_small_run(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    (tmp_path / "tiny.0.ethos-u85-256.tosa").write_bytes(dumps(conv_graph()))
    assert [name for name, _ in cut(tmp_path, "ethos-u85-256")] == ["tiny.0.ethos-u85-256.tosa"]
    given = ["--tosa", str(tmp_path), "--families", "matmul", "--out", str(tmp_path / "out")]
    discovery.main(given)
    records = [json.loads(line) for line in (tmp_path / "out/records.jsonl").read_text().splitlines()]
    family, news = records
    assert (family["part"], family["found"], family["as_cheap"]) == ("blind", True, True)
    assert family["after"] < family["without"] and news["part"] == "news"
    text = (tmp_path / "out/table.md").read_text()
    assert "of 1 pairs of a family and a target that pay, 1 found again" in text
    discovery.main(given)
    assert len((tmp_path / "out/records.jsonl").read_text().splitlines()) == 2
    with pytest.raises(SystemExit):
        discovery.main(["--tosa", str(tmp_path), "--families", "nonsense"])
    assert "no such family: nonsense" in capsys.readouterr().err
