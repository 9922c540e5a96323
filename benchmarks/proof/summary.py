"""What is proved in the recorded cells of `eqsat bench`: a line per cell, and shares per target.

    python -m benchmarks.proof.summary benchmarks/results/zoo benchmarks/results/deployed [--out FILE]

A cell is a record of a configuration that proves its answer. Of each the answer, stock's graph, and the binaries of
both are proved, undecided, or known to be wrong; a binary is "missing" where Vela makes none, or none was judged.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Record = dict[str, Any]
#: States of a subject.
PROVED, REGIONS, UNDECIDED, WRONG, MISSING = "proved", "all but regions", "undecided", "wrong", "missing"
#: The subjects of the proofs of a cell.
SUBJECTS = ("answer", "stock's graph", "answer's binary", "stock's binary")
#: The end of the reason of a proof of which only a region is left.
_REGION = "its region is not proved"


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
        _of_answer(bool(record["proved"]), undecided),
        MISSING if record["stock_proved"] is None else PROVED if record["stock_proved"] else UNDECIDED,
        _of_binaries(record, ""),
        _of_binaries(record, "stock_"),
    )
    seconds = record.get("seconds", {}).get("verify")
    return Cell(record["model"], record["target"], states, (*undecided, *binaries), seconds)


def _of_answer(proved: bool, undecided: Sequence[str]) -> str:
    """Returns the state of the answer."""
    if proved:
        return PROVED
    return REGIONS if undecided and all(u.endswith(_REGION) for u in undecided) else UNDECIDED


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
    targets = sorted({c.target for c in found})
    head = "| target | cells | " + " | ".join(f"{s}: {PROVED}" for s in SUBJECTS)
    head += " | seconds of verification, geometric mean | worst |\n|---|--:" + "|--:" * (len(SUBJECTS) + 2) + "|\n"
    shares = "".join(_shares(t, [c for c in found if c.target == t]) for t in targets) + _shares("all", found)
    every = "| cell | " + " | ".join(SUBJECTS) + " | seconds |\n|---|" + "---|" * len(SUBJECTS) + "--:|\n"
    every += "".join(
        f"| {c.model}, {c.target} | {' | '.join(c.states)} | {'-' if c.seconds is None else f'{c.seconds:.1f}'} |\n"
        for c in found
    )
    open_ = "".join(_what_is_open(c) for c in found)
    return f"# What is proved\n\n{head}{shares}\n" + (f"Not proved:\n\n{open_}\n" if open_ else "") + every


def _shares(name: str, found: Sequence[Cell]) -> str:
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
    return f"| {name} | {len(found)} | {' | '.join(counts)} | {mean} | {worst} |\n"


def _what_is_open(c: Cell) -> str:
    """Returns a line for a cell of which something is not proved, else ""."""
    open_ = [f"{what}: {state}" for what, state in zip(SUBJECTS, c.states) if state != PROVED]
    reasons = "; ".join(dict.fromkeys(filter(None, c.reasons)))
    return f"* {c.model}, {c.target}: {', '.join(open_)}{f' ({reasons})' if reasons else ''}\n" if open_ else ""


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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
