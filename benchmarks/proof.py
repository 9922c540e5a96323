"""What is proved in the recorded cells of `eqsat bench`: a line per cell, and shares per target.

    python -m benchmarks.proof benchmarks/results/zoo benchmarks/results/deployed [--out FILE]

A cell is a record of a configuration that proves its answer. Of each the answer, stock's graph, and the binaries of
both are proved, undecided, or known to be wrong; a binary is "missing" where Vela makes none, or none was judged.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.about import arguments, markdown_table

Record = dict[str, Any]
#: States of a subject.
PROVED, UNDECIDED, WRONG, MISSING = "proved", "undecided", "wrong", "missing"
#: The subjects of the proofs of a cell.
SUBJECTS = ("answer", "stock's graph", "answer's binary", "stock's binary")


@dataclass(frozen=True, slots=True)
class Cell:
    """The state of the proofs of one model on one target.

    states: of each of `SUBJECTS`.
    reasons: where proofs ended, in words.
    seconds: of verification, None if they were not recorded.
    """

    model: str
    target: str
    states: tuple[str, ...]
    reasons: tuple[str, ...]
    seconds: float | None


def cell(record: Record) -> Cell:
    """Returns the cell of a record, over all its delegates."""
    undecided = [u for some in record["undecided"] for u in some]
    binaries = [
        u for key in ("binary_undecided", "stock_binary_undecided") for some in record.get(key, ()) for u in some
    ]
    states = (
        PROVED if record["proved"] else UNDECIDED,
        MISSING if record["stock_proved"] is None else PROVED if record["stock_proved"] else UNDECIDED,
        _of_binaries(record, ""),
        _of_binaries(record, "stock_"),
    )
    seconds = record.get("seconds", {}).get("verify")
    return Cell(record["model"], record["target"], states, (*undecided, *binaries), seconds)


def _of_binaries(record: Record, whose: str) -> str:
    """Returns the worst state of the binaries of several delegates.

    whose: the prefix of the keys. A proof that was not tried is missing, and has no reason.
    """
    proved, equal = record[f"{whose}binary_proved"], record[f"{whose}binary_verified"]
    undecided = record.get(f"{whose}binary_undecided") or [[]] * len(proved)
    known = [
        PROVED if p else WRONG if e is False else UNDECIDED if reasons else MISSING
        for p, e, reasons in zip(proved, equal, undecided, strict=True)
    ]
    return next((state for state in (WRONG, UNDECIDED, MISSING, PROVED) if state in known), MISSING)


def cells(runs: Iterable[Path]) -> list[Cell]:
    """Returns the cells of all records that tell whether their answer is proved."""
    lines = [line for run in runs for line in (run / "records.jsonl").read_text().splitlines()]
    return [cell(r) for r in map(json.loads, lines) if "error" not in r and r.get("proved") is not None]


def table(found: Sequence[Cell]) -> str:
    """Returns the shares per target and of all, what is not proved, and a line per cell, as Markdown."""
    shares = [_shares(t, [c for c in found if c.target == t]) for t in sorted({c.target for c in found})]
    head = (
        "target",
        "cells",
        *(f"{s}: {PROVED}" for s in SUBJECTS),
        "seconds of verification, geometric mean",
        "worst",
    )
    every = ((f"{c.model}, {c.target}", *c.states, "-" if c.seconds is None else f"{c.seconds:.1f}") for c in found)
    open_ = [line for c in found for line in _what_is_open(c)]
    lines = [
        "# What is proved",
        "",
        *markdown_table(head, [*shares, _shares("all", found)]),
        *(["Not proved:", "", *open_, ""] if open_ else []),
        *markdown_table(("cell", *SUBJECTS, "seconds"), every, names=1 + len(SUBJECTS)),
    ]
    return "\n".join(lines)


def _shares(name: str, found: Sequence[Cell]) -> list[object]:
    """Returns a row with how many of each subject are proved.

    Subjects that are missing or known to be wrong are counted apart.
    """
    counts = []
    for states in zip(*(c.states for c in found)):
        judged = [s for s in states if s not in (WRONG, MISSING)]
        proved = sum(s == PROVED for s in judged)
        share = f" ({proved / len(judged):.1%})" if judged else ""
        besides = [f"{states.count(s)} {s}" for s in (WRONG, MISSING) if s in states]
        counts.append(f"{proved} of {len(judged)}{share}" + "".join(f", {b}" for b in besides))
    seconds = [max(c.seconds, 0.01) for c in found if c.seconds is not None]
    mean = f"{math.exp(sum(map(math.log, seconds)) / len(seconds)):.1f}" if seconds else "-"
    worst = f"{max(seconds):.1f}" if seconds else "-"
    return [name, len(found), *counts, mean, worst]


def _what_is_open(c: Cell) -> list[str]:
    """Returns a line for a cell of which something is not proved, else none."""
    open_ = [f"{what}: {state}" for what, state in zip(SUBJECTS, c.states) if state != PROVED]
    reasons = "; ".join(dict.fromkeys(filter(None, c.reasons)))
    return [f"* {c.model}, {c.target}: {', '.join(open_)}{f' ({reasons})' if reasons else ''}"] if open_ else []


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__)
    parser.add_argument("runs", type=Path, nargs="+", help="directories with records.jsonl")
    parser.add_argument("--out", type=Path, help="a file for the table, instead of the terminal")
    args = parser.parse_args(argv)
    found = cells(args.runs)
    if not found:
        parser.error("no record there tells whether its answer is proved")
    text = table(found)
    if args.out:
        args.out.write_text(text)
    else:
        print(text)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
