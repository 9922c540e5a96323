"""The fit of a price per command: found where there is one, and the default is what the public figures bear out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.fvp import CELLS, Measurement, cells, fit, main, per_command
from cost_models.command_stream import PER_COMMAND, price
from eqsat.device.compile import compile_binary
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.device.graphs import addition, convolution, of, table, transposition

U55 = Target.of("ethos-u55-128")


def test_the_default_price_is_what_the_cells_bear_out() -> None:
    assert len(cells()) == 38
    assert per_command(cells()) == PER_COMMAND


def test_a_price_that_is_there_is_found() -> None:
    """Cycles made by the formula itself, with 300 a command."""
    shares = {"ethos-u55": 0.9, "ethos-u65": 0.8}
    made = [replace(c, measured=round(shares[c.family] * c.priced + 300 * c.commands)) for c in cells()]
    assert fit(made).price == pytest.approx(300, rel=1e-3) and fit(made).rms < 1e-4
    assert per_command(made) == pytest.approx(300, rel=1e-3)


def test_a_price_counts_only_if_it_hangs_on_no_single_measurement() -> None:
    """Without the last one, each command would take half a cycle less than nothing."""
    sizes = ((1000, 10), (2000, 300), (3000, 20), (4000, 500))
    alike = [Measurement(f"m{k}", "u55", n, c, c - n // 2) for k, (c, n) in enumerate(sizes)]
    odd = Measurement("odd", "u55", 400, 1000, 2000)
    assert fit(alike).price < 0 < fit([*alike, odd]).price and per_command([*alike, odd]) == 0
    with pytest.raises(ValueError, match="measure more"):
        fit(alike[:2])


def test_the_recorded_tables_are_those_of_the_cells(tmp_path: Path) -> None:
    main(["--out", str(tmp_path / "made.md")])
    assert (tmp_path / "made.md").read_text() == (CELLS.parent / "summary.md").read_text()


def test_own_measurements_are_laid_beside_both_totals(
    worker: Worker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Cycles made by the formula itself, with 300 a command."""
    lines = ["file,target,cycles"]
    for make in (convolution, transposition, addition, table):
        buffer = dumps(of(make))
        found = price(compile_binary(buffer, U55, worker).stream, U55)
        (tmp_path / f"{make.__name__}.tosa").write_bytes(buffer)
        lines.append(f"{make.__name__}.tosa,ethos-u55-128,{round(0.8 * found.cycles + 300 * found.commands)}")
    (tmp_path / "measured.csv").write_text("\n".join(lines))
    main(["--measured", str(tmp_path / "measured.csv")])
    out = capsys.readouterr().out
    assert "fit: 0.800 of the price on u55, and 300 cycles per command" in out
    assert f" {compile_tosa(dumps(of(table)), U55, worker).cycles:,} " in out
    (tmp_path / "measured.csv").write_text("file,cycles\nx.tosa,5\n")
    with pytest.raises(SystemExit) as e:
        main(["--measured", str(tmp_path / "measured.csv")])
    assert e.value.code == 2
