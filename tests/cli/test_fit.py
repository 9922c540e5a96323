"""`eqsat fit`: measured cycles beside both totals, and the price of a command that they bear out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from cost_models.command_stream import price
from cost_models.measured import Measurement, fit, per_command
from eqsat.cli.app import app
from eqsat.device.binary import Binary
from eqsat.device.compile import compile_binary
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.device.graphs import addition, convolution, of, table, transposition

U55 = Target.of("ethos-u55-128")


def raw(binary: Binary) -> dict[str, np.ndarray]:
    """As Vela's raw output has it."""
    found = {
        "cmd_data": np.frombuffer(binary.stream, np.uint8),
        "weight_data": np.frombuffer(binary.read_only, np.uint8),
    }
    found |= {"scratch_size": np.array(binary.scratch), "scratch_fast_size": np.array(binary.scratch_fast or 0)}
    for side, tensors in (("input", binary.inputs), ("output", binary.outputs)):
        for key, of_tensor in (
            ("shape", "shape"),
            ("elem_size", "element"),
            ("region", "region"),
            ("offset", "address"),
        ):
            found[f"{side}_{key}"] = np.array([getattr(t, of_tensor) for t in tensors])
    return found


def test_measurements_are_laid_beside_both_totals_and_fitted(worker: Worker, tmp_path: Path) -> None:
    """Cycles made by the formula itself, with 300 a command; the first file is Vela's raw output."""
    lines = []
    for make in (convolution, transposition, addition, table):
        buffer = dumps(of(make))
        binary = compile_binary(buffer, U55, worker)
        found = price(binary.stream, U55)
        file = tmp_path / (f"{make.__name__}.tosa" if lines else "raw\x1b[31m.npz")
        if lines:
            file.write_bytes(buffer)
        else:
            np.savez(file, **raw(binary))
        lines.append(f"{file.name},ethos-u55-128,{round(0.8 * found.cycles + 300 * found.commands)}")
    measured = tmp_path / "measured.csv"
    measured.write_text("\n".join(["file,target,cycles", *lines]))
    done = CliRunner().invoke(app, ["fit", str(measured)])
    assert done.exit_code == 0, done.output
    assert "\x1b" not in done.output
    assert "fit: 0.800 of the price on u55, and 300 cycles per command" in done.output
    assert "--command-cycles 375 ranks graphs for u55" in done.output
    first, last = (line.split() for line in done.output.splitlines()[1::3][:2])
    assert (first[0], first[3]) == ("raw\\x1b[31m.npz", "-")
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
    """Without the last one, each command would take half a cycle less than nothing."""
    sizes = ((1000, 10), (2000, 300), (3000, 20), (4000, 500))
    alike = [Measurement(f"m{k}", "u55", n, c, c - n // 2) for k, (c, n) in enumerate(sizes)]
    odd = Measurement("odd", "u55", 400, 1000, 2000)
    assert fit(alike).price < 0 < fit([*alike, odd]).price and per_command([*alike, odd]) == 0
    with pytest.raises(ValueError, match="measure more"):
        fit(alike[:2])
