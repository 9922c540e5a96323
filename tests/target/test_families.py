"""Families are records of traits: they are consistent, and nobody asks for one by name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import permutations
from pathlib import Path

import pytest

from eqsat.target import ACCELERATORS, FAMILIES, Family, Target
from eqsat.target.families import U55, U85

ROOT = Path(__file__).parents[2]
BY_FAMILY = pytest.mark.parametrize("family", FAMILIES, ids=lambda f: f.name)


@BY_FAMILY
def test_traits_are_consistent(family: Family) -> None:
    t = family.transposes
    assert set(t.native) <= set(permutations(range(3))) - {(0, 1, 2)} and set(t.doubled) <= set(t.native)
    # chains of natives are searched from both ends (`staging.chains`)
    assert {tuple(p.index(i) for i in range(3)) for p in t.native} == set(t.native)
    assert all(name.startswith(f"ethos-{family.name}-") for name in family.cores)


def test_every_accelerator_is_of_one_family() -> None:
    assert sum(len(f.cores) for f in FAMILIES) == len(ACCELERATORS) == len(set(ACCELERATORS))
    assert len({f.name for f in FAMILIES}) == len(FAMILIES)
    for name in ACCELERATORS:
        assert Target(name, ()).family.cores[name] is Target(name, ()).core


def test_native_permutations_of_nhwc() -> None:
    assert U85.transposes.native_of((0, 2, 3, 1)) == (1, 2, 0)
    assert U55.transposes.native_of((0, 2, 3, 1)) is None  # it takes two
    for perms in ((0, 1, 2, 3), (1, 0, 2, 3), (0, 2, 1), (0, 1, 2, 4, 3)):
        assert U85.transposes.native_of(perms) is None


def literals(path: Path) -> Iterator[str]:
    """Strings of a file that are no docstrings."""
    tree = ast.parse(path.read_text())
    texts = {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    yield from (
        n.value
        for n in ast.walk(tree)
        if isinstance(n, ast.Constant) and isinstance(n.value, str) and id(n) not in texts
    )


def test_families_are_named_in_tables_only() -> None:
    """Anywhere else than in the two tables a name would be a test for it."""
    names = re.compile("|".join(f.name for f in FAMILIES))
    found = {
        path.relative_to(ROOT).as_posix()
        for package in ("eqsat", "cost_models", "extraction")
        for path in (ROOT / package).rglob("*.py")
        if any(names.fullmatch(s) for s in literals(path))
    }
    assert found == {"eqsat/target/families.py", "cost_models/calibration.py"}
