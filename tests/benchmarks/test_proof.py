"""What is proved of recorded runs: the state of a cell, and a table with every cell once."""

from __future__ import annotations

import pytest

from benchmarks.about import RESULTS
from benchmarks.proof import PROVED, cells, main


def test_the_table_has_every_cell_of_the_recorded_zoo(capsys: pytest.CaptureFixture[str]) -> None:
    found = cells([RESULTS / "zoo"])
    assert all(c.states[0] == PROVED for c in found)
    assert main([str(RESULTS / "zoo")]) == 0
    text = capsys.readouterr().out
    assert len(found) == 81 and all(text.count(f"| {c.model}, {c.target} |") == 1 for c in found)
