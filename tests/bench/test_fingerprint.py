"""A key changes with the code that can change a result, and with nothing else."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from eqsat.bench import cells
from eqsat.bench.fingerprint import ROOT, closure, code, fingerprint, submodules
from eqsat.ground.versions import PACKAGES

MEASURING = cells._MEASURING[0]


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Our sources, to edit."""
    base = tmp_path_factory.mktemp("clone")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, base / package, ignore=shutil.ignore_patterns("__pycache__"))
    return base


@pytest.fixture(scope="module")
def key(clone: Path) -> str:
    """The key of a measurement by our sources as they are."""
    return fingerprint(MEASURING, base=clone)


def edited(base: Path, *edits: tuple[str, str, str]) -> str:
    """Gives the key of a measurement with parts of files replaced; the files are put back.

    edits: (file, part, what is there instead).
    """
    before = {name: (base / name).read_text() for name, _, _ in edits}
    try:
        for name, old, new in edits:
            text = (base / name).read_text()
            assert old in text
            (base / name).write_text(text.replace(old, new, 1))
        return fingerprint(MEASURING, base=base)
    finally:
        for name, text in before.items():
            (base / name).write_text(text)


@pytest.mark.slow
def test_a_docstring_or_a_comment_keeps_the_key_and_code_changes_it(clone: Path, key: str) -> None:
    assert key == fingerprint(MEASURING)
    files = ("eqsat/search/optimizer.py", "eqsat/rules/moves.py")
    docstrings = [ast.get_docstring(ast.parse((clone / name).read_text()), clean=False) or "" for name in files]
    assert all(docstrings)
    texts = [(name, d, "Another text.") for name, d in zip(files, docstrings, strict=True)]
    comments = [(name, "from __future__", "# a comment\n\n\nfrom __future__") for name in files]
    assert edited(clone, *texts, *comments) == key
    for name in files:
        assert edited(clone, (name, "from __future__", "LIMIT = 7\nfrom __future__")) != key


@pytest.mark.slow
def test_what_cannot_change_a_measurement_is_not_in_its_key(clone: Path, key: str) -> None:
    names = ("eqsat/executorch/pt2.py", "eqsat/report/write.py", "eqsat/cli/bench.py", "eqsat/bench/run.py")
    assert edited(clone, *((name, "from __future__", "LIMIT = 7\nfrom __future__") for name in names)) == key


def test_modules_that_are_imported_by_name_are_in_the_key() -> None:
    found = closure(MEASURING)
    assert {*submodules("extraction"), *submodules("cost_models"), *submodules("eqsat/rules")} <= {*found}
    assert {"eqsat.tensor.graph", "eqsat.egraph.engine", "eqsat.ground.worker", "eqsat.vela.compile"} <= {*found}
    assert "eqsat.executorch.lowering" not in closure(cells._LOWERING[0])


def test_imports_are_followed(tmp_path: Path) -> None:
    package = tmp_path / "p"
    (package / "inner").mkdir(parents=True)
    for name, text in {
        "__init__": "from p import unused",
        "a": "from . import b\nfrom p.inner.c import x\nif TYPE_CHECKING:\n    from p import typed\n",
        "b": "def f():\n    import p.late\n",
        "inner/__init__": "",
        "inner/c": "from .. import b\nfrom .d import y as z\nimport os.path\n",
        "inner/d": "",
        "late": "",
        "typed": "",
        "unused": "",
    }.items():
        (package / f"{name}.py").write_text(text)
    assert set(closure(["p.a"], base=tmp_path, packages=["p"])) == {
        "p",
        "p.a",
        "p.b",
        "p.inner.c",
        "p.inner.d",
        "p.late",
        "p.unused",
    }
    with pytest.raises(KeyError):
        closure(["p.nothing"], base=tmp_path, packages=["p"])


def test_strings_that_are_no_docstrings_are_code() -> None:
    one = code(b'"""Words."""\ndef f():\n    """Words."""\n    return "words"\n')
    assert one == code(b'def f():\n    """Other words."""\n    return "words"  # and a comment\n')
    assert one != code(b'def f():\n    return "other words"\n')
