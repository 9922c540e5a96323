"""The examples in docstrings run and print what they say."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path

import pytest

from eqsat.bench.fingerprint import PACKAGES

ROOT = Path(__file__).parents[2]
#: Rooms whose examples need a model that is lowered; docs/executorch.md and docs/before-lowering.md run such ones.
_LOWERS = ("eqsat/executorch", "eqsat/before_lowering")
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
