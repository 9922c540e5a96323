"""One .pte from many compilations: a small network, and the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import same_bytes
from benchmarks.same_bytes import main


@pytest.mark.slow
def test_other_seeds_compile_the_same_bytes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Other tests are load enough."""
    monkeypatch.setattr(same_bytes, "_BUSY", 0)
    main(["--models", "pixel_shuffle", "--targets", "ethos-u85-256", "--times", "2", "--out", str(tmp_path)])
    first, second = (json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines())
    assert (first["store"], second["store"], second["busy"]) == ("empty", "kept", True)
    assert first["sha256"] == second["sha256"] and first["cycles"] == second["cycles"] > 0
    assert "| pixel_shuffle | ethos-u85-256 | 2 | 1 | 1 | 1 | 0 | 1 |" in (tmp_path / "table.md").read_text()
