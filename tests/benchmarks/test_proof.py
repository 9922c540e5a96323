"""What is proved of recorded runs: the state of a cell, and a table with every cell once."""

from __future__ import annotations

import pytest

from benchmarks.about import RESULTS
from benchmarks.proof import MISSING, PROVED, UNDECIDED, WRONG, cell, cells, main

DELEGATE = {"model": "m", "target": "t", "proved": True, "stock_proved": None, "undecided": [[]]}


def test_a_cell_has_the_worst_state_of_its_binaries() -> None:
    for proved, equal, reasons, state in (
        ([True, True], [True, True], [[], []], PROVED),
        ([True, False], [True, True], [[], ["too long"]], UNDECIDED),
        ([True, None], [True, None], [[], []], MISSING),
        ([False, None], [False, None], [["wrong"], []], WRONG),
    ):
        binaries = {"binary_proved": proved, "binary_verified": equal, "binary_undecided": reasons}
        record = {**DELEGATE, **binaries, **{f"stock_{k}": v for k, v in binaries.items()}}
        assert cell(record).states == (PROVED, MISSING, state, state)


def test_the_table_has_every_cell_of_the_recorded_zoo(capsys: pytest.CaptureFixture[str]) -> None:
    found = cells([RESULTS / "zoo"])
    assert all(c.states[0] == PROVED for c in found)
    assert main([str(RESULTS / "zoo")]) == 0
    text = capsys.readouterr().out
    assert len(found) == 81 and all(text.count(f"| {c.model}, {c.target} |") == 1 for c in found)
