"""The referee of versions: what it says of two pairs, and a small run with the pins of ExecuTorch where they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.versions import broken, main, summary
from eqsat.tosa.flatbuffer import dumps
from tests.device.graphs import addition, convolution, of

ROOT = Path(__file__).parents[2]
PINS = ROOT / ".venv" / "executorch-pins"


def record(versions: str, name: str, outcome: str = "right", what: str = "graph", **figures: int) -> dict:
    return {"with": versions, "what": what, "name": name, "target": "t", "outcome": outcome, "reason": "why", **figures}


def test_what_moved_and_what_broke() -> None:
    records = [
        record("new", "a", cycles=50, sram=7),
        record("new", "b", "wrong", cycles=100),
        record("new", "c", cycles=1000),
        record("new", "d", "refused", "defect"),
        record("new", "e", what="case", cycles=4, transposes=2),
        record("old", "a", cycles=100, sram=7),
        record("old", "b", cycles=100),
        record("old", "c", cycles=1001),
        record("old", "d", "wrong", "defect"),
        record("old", "e", what="case", cycles=4, transposes=5),
    ]
    text = summary(records)
    assert "| new | 2 | 1 | 0 | 0 | 0 | 2 |" in text and "| old | 3 | 0 | 0 | 1 | 0 | 5 |" in text
    assert "## From old to new" in text and "* t: cycles of 3 graphs by 0.793" in text
    rows = [
        line for line in text.splitlines() if line.startswith("| ") and "versions" not in line and "what" not in line
    ]
    assert rows[2:] == [
        "| graph a | t | cycles | 100 | 50 |",
        "| graph b | t | why | right | **wrong** |",
        "| defect d | t | why | wrong | **refused** |",
        "| case e | t | transposes | 5 | 2 |",
    ]
    assert broken(records) == [("b", "t")]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not PINS.is_dir(), reason="no second pair of versions is installed")
def test_two_pairs_of_versions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other pair has a process of its own, this one is measured here."""
    target, graphs = "ethos-u85-256", tmp_path / "graphs"
    graphs.mkdir()
    for name, piece in (("conv", convolution), ("add", addition)):
        (graphs / f"{name}.0.{target}.explicit.tosa").write_bytes(dumps(of(piece)))
    asked = ["versions", "--graphs", str(graphs), "-t", target, "--defects", "2", "--cases", "1"]
    asked += ["--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", [*asked, "--with", str(PINS)])
    main()
    said = capsys.readouterr().out.split("##")
    assert said[-1].startswith(" From") and "ethos-u-vela 5.1" in said[-1] and "| 2 | 0 | 0 |" in said[0]
    monkeypatch.setattr(sys, "argv", asked)
    main()
    assert capsys.readouterr().out.split("##")[1:] == said[1:]
