"""Shows which operators and blocks of PyTorch stay on the CPU, with stock ExecuTorch and with eqsat.

    python -m benchmarks.operators --out benchmarks/results/operators

Each case (`cases.py`) is a small network quantized to INT8: the operator between two layers, as it stands in a network.
It is lowered for each target by Arm's partitioner and by eqsat's.
Counted are the operators outside the delegates, without the quantize and dequantize around them.

Where eqsat changes nothing in a program, both partitioners do the same, and it is lowered once.

Then the lowered program runs: each delegate by the semantics of its TOSA, the rest by PyTorch.
Of stock it is the TOSA that Vela compiled, of eqsat the one that its search begins with.
The outputs are compared with those of the quantized program, in steps of their quantization.

Takes ten seconds of a processor for each case and target, of which there are 442.
"""

from __future__ import annotations

import argparse
import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from benchmarks.operators.cases import CASES, INSTEAD, Case
from benchmarks.study import Study, as_text, listed, markdown_table
from eqsat.bench.records import Record
from eqsat.executorch.bookkeeping import less_bookkeeping
from eqsat.executorch.session import LeftOperator

TARGETS = ("ethos-u55-128", "ethos-u85-256")
EVERY = {name: case for cases in CASES.values() for name, case in cases.items()}
_SIDES = ("stock", "eqsat")


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--cases", nargs="+", default=list(EVERY), metavar="NAME")
    parser.add_argument("--targets", type=listed, default=TARGETS)


def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, tuple[Case, str]]]:
    for name, target in product(args.cases, args.targets):
        yield {"case": name, "target": target}, (EVERY[name], target)


def measure(subject: tuple[Case, str], args: argparse.Namespace) -> Iterator[Record]:
    from benchmarks.operators import run

    logging.getLogger().setLevel(logging.ERROR)
    with less_bookkeeping():
        yield run.measure(*subject)


def table(records: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns the counts, a table per group of cases, and what stays and why, as Markdown."""
    by_case: dict[str, dict[str, Record]] = defaultdict(dict)
    for r in records:
        by_case[r["case"]][r["target"]] = r
    lines = ["# Operators on the CPU", "", f"{as_text(about)}.", ""]
    if missing := [name for name in EVERY if name not in by_case]:
        lines += [f"{len(missing)} of {len(EVERY)} cases are not measured yet; the same command goes on.", ""]
    lines += _counts(records)
    head = ("", *(f"{t.removeprefix('ethos-').upper()} {side}" for t in TARGETS for side in _SIDES), "steps")
    for group, cases in CASES.items():
        if rows := [_row(name, by_case[name]) for name in cases if name in by_case]:
            lines += [f"## {group}", "", *markdown_table(head, rows)]
    lines += ["## What stays with eqsat, and why", "", *_reasons(records)]
    lines += ["## What neither lowers", "", *_failures(by_case)]
    return "\n".join(lines).rstrip() + "\n"


def _counts(records: Sequence[Record]) -> list[str]:
    rows = []
    for target, side in product(TARGETS, _SIDES):
        found = [r[side] for r in records if r["target"] == target]
        lowered = [f for f in found if "cpu" in f]
        whole, outside = sum(not f["cpu"] for f in lowered), sum(sum(f["cpu"].values()) for f in lowered)
        equal = sum(f["differences"] is not None and f["differences"][0] == 0 for f in lowered)
        rows.append((f"{target}, {side}", len(found), whole, outside, len(found) - len(lowered), equal))
    head = ("", "cases", "wholly on the NPU", "operators on the CPU", "not lowered", "integers equal to PyTorch's")
    return markdown_table(head, rows)


def _row(name: str, by_target: Mapping[str, Record]) -> Iterator[object]:
    """Yields the cells of a case: operators on the CPU, and the largest difference from PyTorch of any lowering."""
    yield f"`` {name} ``" if "`" in name else f"`{name}`".replace("|", "\\|")
    found = [by_target[t].get(side, {}) if t in by_target else {} for t in TARGETS for side in _SIDES]
    for f in found:
        yield sum(f["cpu"].values()) if "cpu" in f else "fails" if f else "-"
    steps = [f["differences"][0] for f in found if f.get("differences")]
    yield f"{max(steps):g}" if steps else "-"


def _reasons(records: Sequence[Record]) -> list[str]:
    """Returns a row per operator and reason: on which targets and in which cases it stays, and the remedy."""
    found: dict[LeftOperator, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for r in records:
        instead = f"as in `{INSTEAD[r['case']]}`" if r["case"] in INSTEAD else ""  # where its remedy was tried
        for o in r["eqsat"]["left"]:
            left = LeftOperator(o["name"], 0, o["reason"], o["remedy"] or instead)
            found[left][r["target"]].append(r["case"])
    rows = []
    for o, by_target in sorted(found.items(), key=lambda item: item[0].name):
        cases = dict.fromkeys(c for names in by_target.values() for c in names)
        targets = ", ".join(t.removeprefix("ethos-").upper() for t in by_target)
        told = (targets, ", ".join(cases), o.reason or "-", o.remedy or "-")
        rows.append((f"`{o.name}`", *(cell.replace("|", "\\|").replace("<", "\\<") for cell in told)))
    return markdown_table(("operator", "on", "cases", "Arm's reason", "remedy"), rows, 5)


def _failures(by_case: Mapping[str, Mapping[str, Record]]) -> list[str]:
    rows = (
        (f"`{name}`", target, r["eqsat"]["error"].partition("\n")[0][:200].replace("|", "\\|"))
        for name, by_target in by_case.items()
        for target, r in by_target.items()
        if "error" in r["eqsat"]
    )
    return markdown_table(("case", "target", "error"), rows, 3)


_PACKAGES = ("eqsat", "executorch", "ethos-u-vela", "torch", "torchao")
STUDY = Study(__doc__, "operators", options, cells, measure, table, packages=_PACKAGES)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
