"""A hunt for traps of Vela's estimate.

    python -m benchmarks.traps --out benchmarks/results/traps [--graphs RUN/graphs]

Small graphs (`graphs.py`), and changes of them that cost a device nothing or a known little, are compiled; where Vela's
total falls by more than the price of the commands, or the two are far from each other to begin with, is a finding
(`hunt.py`), with the lines of Vela's sources that make it (`causes.py`). `findings.jsonl` has a line for each, with the
version of Vela; another version in front on the path adds its own. graphs: a directory of saved graphs,
NAME.DELEGATE.TARGET.stock.tosa, of which both totals are written to `totals.jsonl`. `run.json` has the commit and
versions of the last hunt, and `table.md` is made from all. Exit code 1 where a finding has no known cause.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.about import write_about
from benchmarks.traps.hunt import Finding, Totals, findings
from benchmarks.traps.table import table
from eqsat.ground.files import write_atomically
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.vela.compile import compile_tosa
from eqsat.vela.facts import version

ROOT = Path(__file__).parent.parent.parent
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
_PACKAGES = ("eqsat", "ethos-u-vela")
_SUFFIX = ".stock.tosa"


def read(path: Path) -> list[dict[str, Any]]:
    """Returns the records of a file, none if there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def finding_of(record: dict[str, Any]) -> Finding:
    """Returns the finding of a record."""
    totals = {side: Totals(**record[side]) for side in ("before", "after")}
    return Finding(**{**record, "shape": tuple(record["shape"]), **totals})


def totals_of(directory: Path, pool: Pool) -> list[dict[str, Any]]:
    """Returns both totals of stock's graphs in a directory; it leaves out those that Vela refuses."""
    out = []
    for path in sorted(directory.glob(f"*{_SUFFIX}")):
        name, delegate, target = path.name.removesuffix(_SUFFIX).rsplit(".", 2)
        try:
            estimate = compile_tosa(path.read_bytes(), Target.of(target), pool)
        except WorkerError:
            continue
        out.append(
            {
                "vela": version(),
                "name": name,
                "delegate": int(delegate),
                "target": target,
                "cycles": estimate.cycles,
                "corrected": estimate.corrected,
            }
        )
    return out


def _kept(path: Path, new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Replaces the records of the installed version of Vela in a file by new ones.

    Returns all records, the newest version first.
    """
    records = [*(r for r in read(path) if r["vela"] != version()), *new]
    records.sort(key=lambda r: r["vela"], reverse=True)
    write_atomically(path, "".join(json.dumps(r) + "\n" for r in records).encode())
    return records


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-t", "--targets", default=",".join(TARGETS))
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/traps")
    parser.add_argument("--graphs", type=Path, help="a directory of saved graphs")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    about = write_about(args.out, _PACKAGES)
    with Pool(1) as pool:
        found = [f for target in args.targets.split(",") for f in findings(Target.of(target), pool)]
        known = _kept(args.out / "findings.jsonl", [asdict(f) for f in found])
        totals = (
            _kept(args.out / "totals.jsonl", totals_of(args.graphs, pool))
            if args.graphs
            else read(args.out / "totals.jsonl")
        )
    text, unexplained = table([finding_of(r) for r in known], totals, about)
    write_atomically(args.out / "table.md", text.encode())
    print(text, end="")
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main())
