"""The fit of a price per command: found where there is one, and the default is what the public figures bear out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fvp import CELLS, cells, main
from cost_models.command_stream import PER_COMMAND
from cost_models.measured import fit, per_command


def test_the_default_price_is_what_the_cells_bear_out() -> None:
    assert len(cells()) == 38
    assert per_command(cells()) == PER_COMMAND


def test_a_price_that_is_there_is_found() -> None:
    """Cycles made by the formula itself, with 300 a command."""
    shares = {"ethos-u55": 0.9, "ethos-u65": 0.8}
    made = [replace(c, measured=round(shares[c.family] * c.priced + 300 * c.commands)) for c in cells()]
    assert fit(made).price == pytest.approx(300, rel=1e-3) and fit(made).rms < 1e-4
    assert per_command(made) == pytest.approx(300, rel=1e-3)


def test_the_recorded_tables_are_those_of_the_cells(tmp_path: Path) -> None:
    main(["--out", str(tmp_path / "made.md")])
    assert (tmp_path / "made.md").read_text() == (CELLS.parent / "summary.md").read_text()
