"""The referee of versions: what it says of two pairs, and a small run with the pins of ExecuTorch where they are."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.versions import main
from eqsat.tosa.flatbuffer import dumps
from tests.device.graphs import addition, convolution, of

ROOT = Path(__file__).parents[2]
PINS = ROOT / ".venv" / "executorch-pins"


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
