"""A hunt for traps of Vela's estimate.

    python -m benchmarks.traps --out benchmarks/results/traps

Small graphs (`graphs.py`), and changes of them that cost a device nothing or a known little, are compiled; where Vela's
total falls by more than the price of the commands, or the two are far from each other to begin with, is a finding
(`hunt.py`), with the lines of Vela's sources that make it (`causes.py`). `findings.jsonl` has a line for each, with the
version of Vela; another version in front on the path adds its own. `run.json` has the commit and versions of the last
hunt, and `table.md` is made from all. Exit code 1 where a finding has no known cause.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.about import TARGETS, arguments, listed, read_lines, write_about, write_lines, write_text
from benchmarks.traps.hunt import Finding, Totals, findings
from benchmarks.traps.table import table
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.vela.facts import version

_PACKAGES = ("eqsat", "ethos-u-vela")


def finding_of(record: dict[str, Any]) -> Finding:
    """Returns the finding of a record."""
    totals = {side: Totals(**record[side]) for side in ("before", "after")}
    return Finding(**{**record, "shape": tuple(record["shape"]), **totals})


def _kept(path: Path, new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replaces the records of the installed version of Vela in a file by new ones.

    Returns all records, the newest version first.
    """
    records = [*(r for r in read_lines(path) if r["vela"] != version()), *new]
    records.sort(key=lambda r: r["vela"], reverse=True)
    write_lines(path, records)
    return records


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__, "traps")
    parser.add_argument("-t", "--targets", default=",".join(TARGETS))
    args = parser.parse_args(argv)
    about = write_about(args.out, _PACKAGES)
    with Pool(1) as pool:
        found = [f for target in listed(args.targets) for f in findings(Target.of(target), pool)]
        known = _kept(args.out / "findings.jsonl", [asdict(f) for f in found])
    text, unexplained = table([finding_of(r) for r in known], about)
    print(write_text(args.out / "table.md", text), end="")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
