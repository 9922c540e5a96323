"""`eqsat prove` as a user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import Result

from eqsat.tosa import dumps, loads
from tests import command
from tests.term import inputs, outputs


def run(*args: object) -> Result:
    return command.run("prove", *args)


def written(place: Path, low: int, *, also: bool = False, dtype: str = "INT8") -> Path:
    """A sum of two inputs, clamped."""
    x, y = inputs(f"x:{dtype}[1,3,3,2] y:{dtype}[1,3,3,2]")
    total = x if dtype != "INT8" else x.plus(y).clamp(-100, 100)
    clamped = total.clamp(low, 100)
    place.write_bytes(dumps(outputs(clamped.clamp(-100, 100) if also else clamped)))
    return place


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    return {
        "a": written(tmp_path / "a.tosa", -50),
        "same": written(tmp_path / "same.tosa", -50, also=True),
        "other": written(tmp_path / "other.tosa", -49),
        "typed": written(tmp_path / "typed.tosa", -50, dtype="INT16"),
    }


def test_equal_files_are_proved_and_certified(files: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "c.json"
    done = run(files["a"], files["same"], "--certificate", place)
    assert done.exit_code == 0, done.output
    assert "proved: equal for every input" in done.output
    paper = json.loads(place.read_text())
    assert paper["verdict"] == "proved" and paper["error_bound"] < 2**-60
    assert [f["name"] for f in paper["files"]] == ["a.tosa", "same.tosa"]
    again = run("--check", place, "--certificate", tmp_path / "d.json")
    assert again.exit_code == 0, again.output
    assert json.loads((tmp_path / "d.json").read_text())["seeds"] != paper["seeds"]


def test_a_counterexample_is_told(files: dict[str, Path]) -> None:
    done = run(files["a"], files["other"], "--json")
    assert done.exit_code == 1, done.output
    told = json.loads(done.stdout)
    assert (told["proved"], told["verdict"], told["error_bound"]) == (False, "different", 1.0)
    witness = told["counterexample"]
    a, b = (loads(files[k].read_bytes()) for k in ("a", "other"))
    inputs = [np.array(x, np.int8) for x in witness["inputs"]]
    values = [g.evaluate(inputs)[witness["output"]][tuple(witness["index"])] for g in (a, b)]
    assert values == [witness["expected"], witness["found"]] and values[0] != values[1]
    assert "different: output 0 at" in run(files["a"], files["other"]).output


def test_the_operator_is_named_at_which_it_ended(tmp_path: Path) -> None:
    """x | y and x + y - (x & y) are equal, and of INT16 there are too many pairs to look at."""
    places = []
    for name in ("sum", "or"):
        x, y = (x.rescale("INT32") for x in inputs("x:INT16[1,3,3,2] y:INT16[1,3,3,2]"))
        both = x + y - (x & y) if name == "sum" else x | y
        places.append(tmp_path / f"{name}.tosa")
        places[-1].write_bytes(dumps(outputs(both.rescale("INT16"))))
    done = run(*places)
    assert done.exit_code == 5, done.output
    assert "undecided" in done.output and "at bitwise_or [1, 3, 3, 2]" in done.output


def test_mistakes_are_named(files: dict[str, Path], tmp_path: Path) -> None:
    for args, message in (
        ((files["a"],), "give two .tosa files"),
        ((files["a"], files["typed"]), "the inputs differ"),
        ((files["a"], tmp_path / "none.tosa"), "cannot read"),
        (("--check", files["a"]), "is no certificate"),
        ((files["a"], "--check", files["a"]), "give none"),
    ):
        done = run(*args)
        assert done.exit_code == 2 and message in " ".join(done.output.split()), done.output


def test_a_file_that_changed_is_no_longer_certified(files: dict[str, Path], tmp_path: Path) -> None:
    place = tmp_path / "c.json"
    run(files["a"], files["same"], "--certificate", place)
    written(files["same"], -51)
    done = run("--check", place)
    assert done.exit_code == 2 and "is not the file that" in " ".join(done.output.split())


def test_a_failure_is_no_difference(files: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eqsat.proof.counterexample.compare", lambda *_: {}["gone"])
    done = run(files["a"], files["other"])
    assert (done.exit_code, done.stderr) == (3, "error: the graphs could not be compared: KeyError: 'gone'\n")
