"""The harness of all studies: cells are measured once each, an interrupted run goes on, and a table is made.

A run leaves three files in its directory: `records.jsonl`, with a line of JSON or more for each cell, `run.json`, with
the commit, the versions and the arguments, and `table.md`. It goes on where it stopped, unless the sources that are
measured have changed: then all its cells are measured again, and a run of only some of them is refused.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eqsat.bench.cells import sources
from eqsat.bench.records import Record
from eqsat.ground.files import write_atomically
from eqsat.ground.versions import commit, versions

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks/results"
#: An accelerator of each family.
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: The command in the text of a study.
COMMAND = re.compile(r"python -m (benchmarks[\w.]*)")


def arguments(doc: str | None, out: str = "") -> argparse.ArgumentParser:
    """Returns a parser whose help is the text of a study, and whose program is the first command in it.

    out: the name of its record, for an option `--out DIR`; "" for none.
    """
    command, style = COMMAND.search(doc or ""), argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(command and command[0], description=doc, formatter_class=style)
    if out:
        parser.add_argument("--out", type=Path, default=RESULTS / out, help="directory of the results")
    return parser


def listed(text: str) -> list[str]:
    """Returns the names in a text "a,b", none of an empty one; the type of an argument."""
    return [name for name in text.split(",") if name]


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the cells that answer it, and their table.

    text: what it answers, in the first line, and how it is run.
    name: of its directory in `benchmarks/results`.
    options: adds its arguments to a parser.
    cells: yields what identifies a cell in its records, and what `measure` needs; it gets the records so far.
    measure: returns the records of a cell, without what identifies it.
    table: returns the records as Markdown, by the content of run.json.
    faults: says what must not be; with any the exit code is 1.
    packages: those whose versions run.json has.
    sources: returns the fingerprint of what is measured.
    """

    text: str | None
    name: str
    options: Callable[[argparse.ArgumentParser], object]
    cells: Callable[[argparse.Namespace, Sequence[Record]], Iterable[tuple[Record, Any]]]
    measure: Callable[[Any, argparse.Namespace], Iterable[Record]]
    table: Callable[[Sequence[Record], Mapping[str, Any]], str]
    faults: Callable[[Sequence[Record]], Sequence[str]] = lambda records: ()
    packages: Sequence[str] = ("eqsat", "executorch", "ethos-u-vela", "egglog")
    sources: Callable[[], str] = sources

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Runs what the arguments ask for, prints the table, and returns the exit code."""
        parser = arguments(self.text, self.name)
        self.options(parser)
        args = parser.parse_args(argv)
        records = self._known(args)
        about = write_about(args.out, self.packages, arguments={k: v for k, v in vars(args).items() if k != "out"})
        self._measure(args, records)
        print(write_text(args.out / "table.md", self.table(records, about)))
        return int(bool(self.faults(records)))

    def _known(self, args: argparse.Namespace) -> list[Record]:
        """Returns the records of these sources. Raises SystemExit for others that no cell of this run replaces."""
        records, sources = read_lines(args.out / "records.jsonl"), self.sources()
        old = [r for r in records if r.get("sources") != sources]
        again = [cell for cell, _ in self.cells(args, ())] if old else []
        if lost := sum(not any(cell.items() <= r.items() for cell in again) for r in old):
            raise SystemExit(
                f"{args.out} has {lost} records of other sources that this run does not measure again: "
                "measure all its cells, or name another directory with --out"
            )
        return [r for r in records if r.get("sources") == sources]

    def _measure(self, args: argparse.Namespace, records: list[Record]) -> None:
        """Adds the records of the cells that have none; all records are on the disk after each cell."""
        place, sources = args.out / "records.jsonl", self.sources()
        write_lines(place, records)
        for cell, subject in self.cells(args, records):
            if not any(cell.items() <= r.items() for r in records):
                started = time.perf_counter()
                records += [{**cell, **r, "sources": sources} for r in self.measure(subject, args)]
                write_lines(place, records)
                print(*cell.values(), f"{time.perf_counter() - started:.1f} s", flush=True)


def decided(record: Record) -> Any:
    """Returns the cycles in a record by which the search decided: corrected ones in older records."""
    return record["calibrated"] if "calibrated" in record else record["corrected"]


def processor_seconds() -> float:
    """Returns the processor seconds of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def about(packages: Sequence[str]) -> dict[str, Any]:
    """Returns the commit and the versions of packages."""
    return {"commit": commit(), "versions": versions(packages)}


def write_about(directory: Path, packages: Sequence[str], file: str = "run.json", **more: Any) -> dict[str, Any]:
    """Writes the commit, the versions of packages, and more to a file of `directory`, and returns them.

    It makes the directory if there is none.
    """
    directory.mkdir(parents=True, exist_ok=True)
    written = {**about(packages), **more}
    write_text(directory / file, json.dumps(written, indent=1, default=str) + "\n")
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
