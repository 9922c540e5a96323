"""What studies share: arguments, records, tables, and `run.json`, with what a study was measured."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.ground.files import write_atomically
from eqsat.ground.versions import commit, versions

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
#: An accelerator of each family.
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")


def arguments(doc: str | None, out: str = "") -> argparse.ArgumentParser:
    """Returns a parser whose help is the text of a study.

    out: the name of its record, for an option `--out DIR`; "" for none.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if out:
        parser.add_argument("--out", type=Path, default=RESULTS / out, help="directory of the results")
    return parser


def listed(text: str) -> list[str]:
    """Returns the names in a text "a,b", none of an empty one."""
    return [name for name in text.split(",") if name]


def about(packages: Sequence[str]) -> dict[str, Any]:
    """Returns the commit and the versions of packages."""
    return {"commit": commit(), "versions": versions(packages)}


def write_about(directory: Path, packages: Sequence[str], file: str = "run.json", **more: Any) -> dict[str, Any]:
    """Writes the commit, the versions of packages, and more to a file of `directory`, and returns them.

    It makes the directory if there is none.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = {**about(packages), **more}
    write_text(directory / file, json.dumps(written, indent=1) + "\n")
    return written


def write_text(path: Path, text: str) -> str:
    """Writes a file, and returns its text."""
    write_atomically(path, text.encode())
    return text


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Writes records, a line of JSON each."""
    write_text(path, "".join(json.dumps(r) + "\n" for r in records))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def as_text(written: Mapping[str, Any]) -> str:
    """Returns the commit and the versions as a line, without a full stop."""
    return f"Commit {written['commit']}; {', '.join(f'{k} {v}' for k, v in written['versions'].items())}"


def markdown_table(columns: Sequence[str], rows: Iterable[Iterable[object]], names: int = 1) -> list[str]:
    """Returns the lines of a Markdown table, with an empty line behind.

    names: how many columns have names; those behind have figures, at the right.
    """
    lines = [columns, ["---"] * names + ["--:"] * (len(columns) - names), *rows]
    return [*(f"| {' | '.join(map(str, line))} |" for line in lines), ""]
