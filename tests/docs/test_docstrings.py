"""The examples in docstrings run and print what they say, and what they name is there."""

from __future__ import annotations

import ast
import doctest
import importlib
import re
from pathlib import Path

import pytest

from eqsat.ground.versions import PACKAGES

ROOT = Path(__file__).parents[2]
#: The room whose examples need a model that is lowered; docs/executorch.md runs such ones.
_LOWERS = "eqsat/executorch"
#: An example that is run: neither a comment nor one that is skipped.
_RUN = re.compile(r"^ *>>> (?!#)(?!.*doctest: \+SKIP)", re.MULTILINE)
EXAMPLES = [
    str(f.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__")
    for package in PACKAGES
    for f in sorted((ROOT / package).rglob("*.py"))
    if _RUN.search(f.read_text()) and not str(f.relative_to(ROOT)).startswith(_LOWERS)
]


@pytest.mark.parametrize("module", EXAMPLES)
def test_the_examples_of_a_module_run(module: str) -> None:
    done = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert done.attempted and not done.failed


def missing(file: Path, text: str) -> list[str]:
    """Returns what a docstring names that is not there: `beside.py`, `eqsat/room/file.py`, eqsat.room.module.name."""
    ours = tuple(f"{p}/" for p in (*PACKAGES, "benchmarks", "tests", "docs"))
    paths = [n for n in re.findall(r"`([\w/]+\.py)`", text) if n != "file.py" and ("/" not in n or n.startswith(ours))]
    dotted = re.findall(rf"(?<![\w.])(?:{'|'.join(PACKAGES)})(?:\.\w+){{2,}}", text)
    gone = [n for n in paths if not ((ROOT if "/" in n else file.parent) / n).exists()]
    return gone + [n for n in dotted if not defined(n.split("."))]


def defined(parts: list[str]) -> bool:
    """Tells whether the innermost module of a dotted name has the name after it."""
    for k in range(len(parts), 0, -1):
        place = ROOT.joinpath(*parts[:k])
        for module in (place.with_suffix(".py"), place / "__init__.py"):
            if module.exists():
                return k == len(parts) or bool(re.search(rf"\b{parts[k]}\b", module.read_text()))
    return False


def test_docstrings_name_what_is_there() -> None:
    files = [f for package in PACKAGES for f in (ROOT / package).rglob("*.py")]
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [(f, n) for f in files for n in ast.walk(ast.parse(f.read_text())) if isinstance(n, documented)]
    found = [(f.relative_to(ROOT).as_posix(), missing(f, ast.get_docstring(n) or "")) for f, n in nodes]
    assert [(name, gone) for name, gone in found if gone] == []


def test_a_stale_name_is_noticed() -> None:
    file = ROOT / "eqsat" / "rules" / "moves.py"
    assert missing(file, "`across.py`, `eqsat/rules/across.py`, eqsat.rules.moves.then, eqsat.rules.moves") == []
    stale = ["gone.py", "eqsat/rules/gone.py", "eqsat.rules.gone.then", "eqsat.rules.moves.gone"]
    assert missing(file, "`gone.py`, `eqsat/rules/gone.py`, eqsat.rules.gone.then, eqsat.rules.moves.gone") == stale


def test_pages_on_development_name_what_is_there() -> None:
    """Files of rooms, tests and studies, and names in backticks; what a page saves itself is in other folders."""
    folders = (*PACKAGES, "benchmarks", "tests", "docs")
    known = {w for d in folders for f in (ROOT / d).rglob("*.py") for w in re.findall(r"\w+", f.read_text())}
    quoted = [
        (page.name, text)
        for page in (ROOT / "docs" / "development").glob("*.md")
        for text in re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL))
    ]
    files = [(page, q) for page, q in quoted if re.fullmatch(r"(eqsat|tests|benchmarks|docs)/[\w/]+\.py", q)]
    names = [(page, q) for page, q in quoted if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", q)]
    assert len(files) > 30 and len(names) > 100
    assert [(page, q) for page, q in files if not (ROOT / q).exists()] == []
    assert [(page, q) for page, q in names if not known.issuperset(q.split("."))] == []
