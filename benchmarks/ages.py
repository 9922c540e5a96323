"""Shows how old the recorded results are, in commits that changed the measured code.

    python -m benchmarks.ages

A record is a directory of `benchmarks/results` with JSON files, or the files of one name in it; the commits that it
was measured at stand in these files. What it measures is in `MEASURES`. A commit counts if it touched a file whose code
differs from that of the record today: comments, docstrings and what was taken back do not count.

The record of a release's results (`OF_RELEASE`) is of its own code: its age is 0. All others are of any commit before.

Takes seconds.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from pathlib import Path

from benchmarks.study import ROOT, markdown_table

RESULTS = "benchmarks/results"

_FILES = ("eqsat/ground", "eqsat/tensor", "eqsat/target", "eqsat/tosa")
_DEVICE = (*_FILES, "eqsat/vela", "eqsat/device")
_EGRAPH = ("eqsat/egraph", "eqsat/rules")
_CHOICE = ("extraction", "cost_models", "eqsat/proof", "eqsat/options", "eqsat/choice", "eqsat/verification")
_SEARCH = (*_DEVICE, *_EGRAPH, *_CHOICE, "eqsat/search")
_LOWERED = (*_SEARCH, "eqsat/executorch")
_ZOO = (*_LOWERED, "eqsat/bench", "benchmarks/models")
_PRICES = (*_DEVICE, *_EGRAPH, "eqsat/choice", "cost_models")
_RANDOM = ("tests/random_graphs.py", "eqsat/checking/random_graphs.py")

#: The directories and files whose code each record measures.
MEASURES: Mapping[str, Collection[str]] = {
    **dict.fromkeys(("ablation", "proposals", "proposals-sram"), _SEARCH),
    **dict.fromkeys(("arm_tests", "operators", "transpose_counts"), _LOWERED),
    **dict.fromkeys(("calibrated", "int16", "memory-modes", "sram", "sram-half", "trained", "vela-5.1"), _ZOO),
    "changed_binaries": (*_DEVICE, "eqsat/proof", *_RANDOM),
    "device": (*_DEVICE, *_RANDOM),
    "extraction/gym": ("extraction",),
    "extraction/zoo": (*_PRICES, "extraction"),
    "measured": (*_DEVICE, "cost_models"),
    "planted_errors": (*_FILES, *_EGRAPH, "eqsat/proof", "eqsat/verification", "eqsat/checking"),
    "whole_job": (*_ZOO, "eqsat/store"),
}

#: The record behind the results in the README, which is made anew for each release.
OF_RELEASE = "calibrated"
#: The file that a release itself changes, which is no change of what was measured.
_VERSION = "eqsat/ground/_version.py"

#: A commit of records that a page quotes: "3f9e39d, `benchmarks/results/zoo`", with any number of records.
_QUOTE = re.compile(rf"\b([0-9a-f]{{7,40}})((?:,\s+`{RESULTS}/[\w.-]+`)+)")
_NAMED = re.compile(rf"`{RESULTS}/([\w.-]+)`")
#: What can only be an abbreviated commit: it has digits and letters.
_COMMIT = re.compile(r"\b(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,12}\b")


def files(name: str, root: Path = ROOT) -> list[Path]:
    """Returns the JSON files of a record."""
    place = root / RESULTS / name
    return sorted(place.glob("*.json*") if place.is_dir() else place.parent.glob(f"{place.name}.*json*"))


def commits(name: str, root: Path = ROOT) -> set[str]:
    """Returns the commits that the files of a record name, of a list those that all its entries name."""
    read = [_entries(f) for f in files(name, root) if f.suffix != ".xz"]
    return {e["commit"] for entries in read if all("commit" in e for e in entries) for e in entries}


def _entries(file: Path) -> list[dict[str, str]]:
    text = file.read_text()
    read = [json.loads(line) for line in text.splitlines()] if file.suffix == ".jsonl" else json.loads(text)
    return read if isinstance(read, list) else [read]


@cache
def in_history(commit: str, root: Path = ROOT) -> bool:
    """Says whether a commit is HEAD or comes before it."""
    asked = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
    return subprocess.run(asked, cwd=root, capture_output=True).returncode == 0


def age(commit: str, places: Collection[str], root: Path = ROOT) -> int:
    """Returns how many commits since `commit` touched code below `places` that differs from it today."""
    head = git(root, "rev-parse", "HEAD").strip()
    listed = git(root, "diff", "--name-only", "--no-renames", commit, head, "--", *places).splitlines()
    changed = [f for f in listed if f != _VERSION and _code(root, commit, f) != _code(root, head, f)]
    return int(git(root, "rev-list", "--count", f"{commit}..{head}", "--", *changed)) if changed else 0


@cache
def _code(root: Path, commit: str, file: str) -> str | None:
    shown = subprocess.run(["git", "show", f"{commit}:{file}"], cwd=root, capture_output=True)
    if shown.returncode:
        return None
    return syntax(shown.stdout) if file.endswith(".py") else repr(shown.stdout)


@cache
def syntax(source: bytes) -> str:
    """Returns the syntax tree of a source as text, without docstrings, comments and layout."""
    tree = ast.parse(source)
    for node in documented(tree):
        node.body = node.body[1:]
    return ast.dump(tree)


def documented(tree: ast.Module) -> Iterator[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yields what begins with a docstring."""
    for node in ast.walk(tree):
        kinds = ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            yield node


def ages(root: Path = ROOT, measures: Mapping[str, Collection[str]] = MEASURES) -> dict[str, int | None]:
    """Returns the age of each record by its oldest commit, None where it names none of this history."""
    return {name: _oldest(commits(name, root), places, root) for name, places in measures.items()}


def _oldest(named: set[str], places: Collection[str], root: Path) -> int | None:
    return max(age(c, places, root) for c in named) if _are_known(named, root) else None


def _are_known(named: set[str], root: Path) -> bool:
    """Whether a record names commits, all of this history."""
    return bool(named) and all(in_history(c, root) for c in named)


def unfit(version: str, root: Path = ROOT, measures: Mapping[str, Collection[str]] = MEASURES) -> list[str]:
    """Returns the records that a version cannot be published with.

    They are those that name no commit of this history, and for a release the one of its results if that is older.
    """
    unknown = [name for name in measures if not _are_known(commits(name, root), root)]
    own = {} if ".dev" in version else {OF_RELEASE: measures[OF_RELEASE]}
    return sorted({*unknown, *(name for name, found in ages(root, own).items() if found != 0)})


def misquoted(text: str, root: Path = ROOT) -> list[str]:
    """Returns what a page says of commits that is not so.

    A quoted commit is that of its record, and every other one is in this history.
    """
    quotes = [(m[1], name) for m in _QUOTE.finditer(text) for name in _NAMED.findall(m[2])]
    wrong = [f"{c}, {name}" for c, name in quotes if not any(k.startswith(c) for k in commits(name, root))]
    return wrong + [c for c in sorted(set(_COMMIT.findall(text))) if not in_history(c, root)]


def git(root: Path, *command: str) -> str:
    """Returns what a command of git prints. Raises CalledProcessError."""
    return subprocess.run(["git", *command], cwd=root, capture_output=True, text=True, check=True).stdout


def _rows() -> Iterator[tuple[str, str, object]]:
    for name, found in sorted(ages().items()):
        named = " ".join(sorted(c[:7] for c in commits(name))) or "-"
        yield name, named, "not in this history" if found is None else found


if __name__ == "__main__":
    print("\n".join(markdown_table(("record", "commits", "changes since"), _rows(), names=2)))
