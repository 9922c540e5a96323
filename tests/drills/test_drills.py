"""The quick drills; the others, which start the command line many times, are run by `python -m tests.drills`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from eqsat.executorch import pt2
from eqsat.ground.files import InputError
from tests.drills import DRILLS, NotPossible, disk, files, interrupts, large, workers  # noqa: F401 - they register their drills
from tests.drills.harmful import programs
from tests.drills.table import markdown

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
QUICK = (
    "worker killed mid-probe",
    "worker killed mid-compile",
    "workers killed whenever they start",
    "solver killed mid-solve",
    "an extern raises",
    "egglog panics",
    "a cost model fails",
    "saturation explodes",
    "optimizations in threads of one process",
    "full disk, output",
    "truncated .tosa",
    "an identity that does not hold",
    "an identity for the wrong target",
    "no Vela installed, .tosa",
)


@pytest.mark.parametrize("name", QUICK)
def test_drill(name: str, tmp_path: Path) -> None:
    try:
        passed, observed = DRILLS[name].run(tmp_path)
    except NotPossible as e:
        pytest.skip(str(e))
    assert passed, observed


@pytest.mark.parametrize(("stage", "times"), [("import", 1), ("price", 1), ("search", 1), ("search", 2), ("write", 1)])
def test_ctrl_c(stage: str, times: int, tmp_path: Path) -> None:
    source = tmp_path / "in.tosa"
    source.write_bytes(files.dumps(files.transposes()))
    command: list[object] = ["optimize", source, "-t", "ethos-u85-256", "--save", tmp_path / "run"]
    passed, observed = interrupts.interrupted(tmp_path, stage, command, times=times)
    assert passed, observed
    assert (tmp_path / "run").exists() is (stage == "search" and times == 1)  # by then a graph was found


def test_ctrl_c_at_random_moments(tmp_path: Path) -> None:
    passed, observed = interrupts.moments(tmp_path, count=4, seed=1)
    assert passed, observed


@pytest.mark.parametrize("where", ["sample inputs", "constant", "target", "shape", "library"])
def test_code_in_a_saved_program_never_runs(where: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    path = programs(tmp_path, trace)[where]
    with pytest.raises(InputError, match=".pt2"):
        pt2.load(path)
    assert not trace.exists()
    assert len(pt2.load(tmp_path / "small.pt2").graph.nodes) > 3


# ---- nothing that is read can run -----------------------------------------------------------------

#: Modules that make objects or code of bytes, and calls that do so.
MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib", "yaml", "code", "codeop"}
CALLS = {"eval", "exec", "compile"}


def harmful(tree: ast.AST) -> Iterator[str]:
    """What a module does that could run what it reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (a.name.split(".")[0] for a in node.names if a.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in MODULES:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            given = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if name in CALLS or name == "torch.export.load":
                yield name
            elif (
                name == "torch.load"
                and given.get("weights_only") != "True"
                or name in ("np.load", "numpy.load")
                and given.get("allow_pickle") != "False"
            ):
                yield f"{name} that may unpickle"


@pytest.mark.parametrize("room", ["eqsat", "extraction", "cost_models"])
def test_nothing_is_unpickled_or_evaluated(room: str) -> None:
    found = {}
    for file in sorted((ROOT / room).rglob("*.py")):
        name = str(file.relative_to(ROOT))
        if bad := set(harmful(ast.parse(file.read_text()))):
            found[name] = bad
    assert found == {}


def test_the_search_for_harm_finds_it() -> None:
    text = (
        "import pickle\nfrom yaml import load\nnp.load(f)\nnp.load(f, allow_pickle=True)\ntorch.load(f, weights_only=False)\n"
        "eval('1')\ntorch.export.load(f)\nnp.load(f, allow_pickle=False)\nmodel.eval()\nre.compile('x')\n"
    )
    assert sorted(harmful(ast.parse(text))) == [
        "eval",
        "np.load that may unpickle",
        "np.load that may unpickle",
        "pickle",
        "torch.export.load",
        "torch.load that may unpickle",
        "yaml",
    ]


def test_the_table_has_a_row_per_drill() -> None:
    records = [
        {"drill": n, "done": "d", "expected": "e | f", "observed": "o\no", "passed": p, "seconds": 1.0}
        for n, p in (("a", True), ("b", False), ("c", None))
    ]
    rows = markdown(records).splitlines()
    assert rows[2] == "1 of 3 went as expected." and rows[-3:] == [
        "| a | d | e / f | o o | yes |",
        "| b | d | e / f | o o | **no** |",
        "| c | d | e / f | o o | not possible here |",
    ]
    assert sys.modules["tests.drills"].DRILLS.keys() >= set(QUICK)
