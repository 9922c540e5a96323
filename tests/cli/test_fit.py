"""`eqsat fit`: measured cycles beside both totals, and the price of a command that they bear out."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from cost_models.command_stream import price
from cost_models.measured import Measurement, fit, per_command
from eqsat.cli.app import app
from eqsat.device.compile import compile_binary
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.workers.worker import Worker
from tests.device.graphs import addition, convolution, of, table, transposition

U55 = Target.of("ethos-u55-128")


def test_measurements_are_laid_beside_both_totals_and_fitted(worker: Worker, tmp_path: Path) -> None:
    """Cycles made by the formula itself, with 300 a command; the first file is what ExecuTorch keeps of a model."""
    from executorch.backends.arm.arm_vela import vela_compile

    lines = []
    for make in (convolution, transposition, addition, table):
        buffer = dumps(of(make))
        found = price(compile_binary(buffer, U55, worker).stream, U55)
        file = tmp_path / (f"{make.__name__}.tosa" if lines else "payload.bin")
        file.write_bytes(buffer if lines else vela_compile(buffer, list(U55.flags)).processed_bytes)
        lines.append(f"{file.name},ethos-u55-128,{round(0.8 * found.cycles + 300 * found.commands)}")
    measured = tmp_path / "measured.csv"
    measured.write_text("\n".join(["file,target,cycles", *lines]))
    done = CliRunner().invoke(app, ["fit", str(measured)])
    assert done.exit_code == 0, done.output
    assert "fit: 0.800 of the price on u55, and 300 cycles per command" in done.output
    assert "--command-cycles 375 ranks graphs for u55" in done.output
    payload, last = (line.split() for line in done.output.splitlines()[1::3][:2])
    assert (payload[0], payload[3]) == ("payload.bin", "-")
    assert last[3] == f"{compile_tosa(dumps(of(table)), U55, worker).cycles:,}"


@pytest.mark.parametrize(
    "text, said",
    [
        ("file,cycles\nx.tosa,5\n", "columns file, target, cycles"),
        ("file,target,cycles\nx.tosa,ethos-u55-128,many\n", "'many' is no number of cycles"),
        ("file,target,cycles\nx.tosa,ethos-u55-128,5\n", "No such file"),
        ("file,target,cycles\nx.tosa,ethos-u99,5\n", "ethos-u99"),
    ],
)
def test_what_cannot_be_fitted_is_said(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "measured.csv").write_text(text)
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "measured.csv")])
    assert done.exit_code == 2 and said in " ".join(done.output.split())


def test_a_price_counts_only_if_it_hangs_on_no_single_measurement() -> None:
    alike = [Measurement(f"m{k}", "u55", n, 1000 * k, 1000 * k) for k, n in ((1, 10), (2, 300), (3, 20))]
    odd = Measurement("odd", "u55", 400, 1000, 50_000)
    assert fit([*alike, odd]).price > 1 and per_command([*alike, odd]) == 0
    with pytest.raises(ValueError, match="measure more"):
        fit(alike[:2])
