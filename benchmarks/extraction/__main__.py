"""Compares extractors on graph files: their costs, their seconds and what they prove.

    python -m benchmarks.extraction DIR --extractors portfolio,dag_greedy --json OUT

DIR, or `--graphs DIR` for several, holds extraction-gym JSON or choice-graph JSON files (see
`extraction.io`), gzip'd or not, in any depth; saved runs have one. Cells already in OUT are not run again.

Takes up to the time limit for each graph and extractor, 45 minutes for extraction-gym by six of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.study import arguments, listed, write_about, write_text
from eqsat.bench.records import Record
from eqsat.ground.files import InputError

from . import run, table

_PACKAGES = ("eqsat", "clingo", "networkx", "numpy")


def main() -> None:
    """Runs the cells that are asked for, and writes the records and the table."""
    parser = arguments(__doc__)
    parser.add_argument("directory", type=Path, nargs="?", help="directory of graph files")
    parser.add_argument("--graphs", type=Path, action="append", default=[], help="one more such directory")
    methods = ["portfolio", "dag_greedy"]
    parser.add_argument("--extractors", type=listed, default=methods, help="comma-separated methods")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one cell")
    parser.add_argument("--seeds", type=listed, default=["0"], help="comma-separated seeds")
    parser.add_argument("--only", default="", help="only instances whose name contains this")
    parser.add_argument("--json", type=Path, required=True, help="records")
    parser.add_argument("--markdown", type=Path, help="table")
    parser.add_argument("--known", type=Path, help="published values (default: known_values.json in DIR)")
    args = parser.parse_args()
    directories = [d for d in (args.directory, *args.graphs) if d is not None]
    if not directories:
        parser.error("name a directory of graphs")
    records, seeds = list[Record](), [int(s) for s in args.seeds]
    for directory in directories:
        if not directory.is_dir():
            parser.error(f"{directory} is not a directory")
        try:
            records = run.run_all(directory, args.extractors, args.time_limit, seeds, args.json, args.only)
        except InputError as e:
            parser.error(str(e))
    known_path = args.known or directories[0] / "known_values.json"
    known = json.loads(known_path.read_text()) if known_path.exists() else {}
    write_about(args.json.parent, _PACKAGES, f"{args.json.stem}.run.json")
    report = table.markdown(records, known)
    if args.markdown:
        write_text(args.markdown, report)
    for extractor, gap in table.gaps(table.distinct(records)).items():
        print(f"{extractor}: {table.stated(gap)}")


if __name__ == "__main__":
    main()
