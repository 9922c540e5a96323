"""Cost models against measured cycles: cells are read, priced by every model and judged; constants are found again."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.measured import Cell, Fit, main, read_cells
from cost_models.calibration import calibration
from cost_models.command_stream import price
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.device.pieces import addition, convolution, of, table
from tests.graphs import U55


def test_cells_are_priced_by_all_models_and_by_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.tosa").write_bytes(dumps(of(convolution, addition)))
    (tmp_path / "own.py").write_text("def commands(stream, target):\n    return len(stream)\n")
    cells = tmp_path / "cells.csv"
    rows = "net,ethos-u55-128,9000\nnet,ethos-u85-256,9000\nabsent,ethos-u55-128,1\nnet,ethos-u99-1,1\n"
    cells.write_text("file,target,cycles\n" + rows)
    own = f"{tmp_path}/own.py:commands"
    main([str(cells), str(tmp_path), "--json", "--model", own, "--out", str(tmp_path / "record")])
    told = json.loads(capsys.readouterr().out)
    assert {c["target"] for c in told["cells"]} == {"ethos-u55-128", "ethos-u85-256"}
    assert [line.split()[0] for line in told["skipped"]] == ["absent", "net"], "each with its reason"
    for cell in told["cells"]:
        assert set(cell["prices"]) == {"vela", "uncalibrated", "calibrated", own}
        assert all(p > 0 for p in cell["prices"].values())
    assert set(told["groups"]["U55"]["calibrated"]) == {"cells", "spread", "mean", "worst"}
    assert (tmp_path / "record/table.md").read_text().count("| net ") == 2


def test_constants_with_which_cycles_were_made_are_found(pool: Pool) -> None:
    graphs = {"a": of(convolution), "b": of(addition), "c": of(table, addition), "d": of(convolution, table)}
    made = replace(calibration(U55), per_command=500.0)
    cells = []
    for name, graph in graphs.items():
        compiled = compile_tosa(dumps(graph), U55, pool)
        cells.append(Cell(name, U55, "", price(compiled.stream, U55, made).cycles, compiled, "U55"))
    fit = Fit(cells)
    assert fit.choose(range(len(cells))).per_command == pytest.approx(500, abs=40)
    _, ratios = fit.left_out(lambda c: c.model)
    assert set(ratios) == {c.name for c in cells} and all(r == pytest.approx(1, rel=0.1) for r in ratios.values())


def test_a_file_without_the_columns_is_an_error_that_names_them(tmp_path: Path) -> None:
    path = tmp_path / "cells.csv"
    path.write_text("model,target\nnet,ethos-u55-128\n")
    with pytest.raises(InputError, match="columns model, target and measured_fvp"):
        read_cells([path])
    for content in ("model,target\nnet,ethos-u55-128\n", "model,target,measured_fvp\nabsent,ethos-u55-128,9\n"):
        path.write_text(content)
        with pytest.raises(SystemExit):
            main([str(path), str(tmp_path)])
