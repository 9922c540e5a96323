"""`--save` and `eqsat explain`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from eqsat import runs
from eqsat.explain import explain
from eqsat.tosa import dumps
from tests.command import run
from tests.graphs import transposed_relus

pytestmark = pytest.mark.slow

PIXEL_SHUFFLE = str(Path(__file__).parent.parent.parent / "benchmarks" / "models" / "pixel_shuffle.py") + ":model"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("saved")
    (place / "in.tosa").write_bytes(dumps(transposed_relus()))
    done = run("optimize", place / "in.tosa", "-t", "ethos-u85-256", "-o", place / "out.tosa", "--save", place / "run")
    assert done.exit_code == 0, done.output
    assert (place / "out.tosa").read_bytes() == runs.load(place / "run").graphs["chosen"]
    return place / "run"


def test_the_region_of_a_node_is_written_as_a_picture_and_as_data(saved: Path, tmp_path: Path) -> None:
    node = next(n for n, x in enumerate(runs.load(saved).source.nodes) if x.op == "transpose")
    written = ("--svg", tmp_path / "a.svg", "--json", tmp_path / "a.json")
    assert run("explain", saved, f"n{node}", *written, "--radius", 1).exit_code == 0
    data = json.loads((tmp_path / "a.json").read_text())
    assert data["explanation"]["node"] == node and data["egraph"]["boxes"]
    ElementTree.fromstring((tmp_path / "a.svg").read_text())


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("{tmp}",), "manifest.json cannot be read"),
        (("{run}", "nine"), "is no node"),
        (("{run}", "n999"), "no node of the source"),
        (("{run}", "n0"), "an input or a constant"),
        (("{run}", "--svg", "{tmp}"), "is a directory"),
        (("{run}", "--user-rules", "no.py"), "does not exist"),
    ],
)
def test_bad_input_is_named(saved: Path, tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    done = run("explain", *(a.replace("{tmp}", str(tmp_path)).replace("{run}", str(saved)) for a in args))
    assert done.exit_code == 2
    assert words in done.stderr.replace("\n", " ")


def test_a_model_is_saved_and_explained(tmp_path: Path) -> None:
    """The transpose of six axes is written as a chain of native ones; Vela's cycles of its pieces add up."""
    done = run("compile", PIXEL_SHUFFLE, "-t", "ethos-u85-256", "-o", tmp_path / "m.pte", "--save", tmp_path / "run")
    assert done.exit_code == 0, done.output
    explanation = explain(runs.load(tmp_path / "run"))
    assert explanation.run.name == f"{PIXEL_SHUFFLE}, forward/0"
    assert sum(v.cycles or 0 for v in explanation.ops.values()) == explanation.run.result["explicit_cycles"]
    transposes = [v for v in explanation.ops.values() if v.op.startswith("transpose")]
    assert len(transposes) > 2 and all(v.verdict == "stayed" or v.rules for v in transposes)
    chains = [v.cycles_now for v in explanation.ops.values() if len(v.written) > 1]
    assert any(cycles < explanation.run.result["explicit_cycles"] / 4 for cycles in chains)
