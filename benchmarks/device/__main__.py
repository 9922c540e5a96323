"""What Vela emits, run and compared: binaries of random graphs, on the functional model and the TOSA reference model.

    python -m benchmarks.device --graphs 500 --targets ethos-u55-128 ethos-u65-512 --out benchmarks/results/device

Graph k of a profile has the seed k. `counts.jsonl` has what became of the graphs of a profile, `odd.jsonl` a line for
each that is not equal, each with the version of Vela and the commit; an interrupted run goes on where it stopped,
unless the sources have changed. A binary that differs is laid to a known defect of Vela (`eqsat/vela/defects.py`) where
the part of the graph that has the defect's pattern differs by itself, or is among what the graph is cut down to.
`summary.md` counts. What becomes of networks, the records of `eqsat bench` say.
"""

from __future__ import annotations

from benchmarks.about import arguments, write_text
from benchmarks.device import graphs
from benchmarks.device.table import summary


def main() -> None:
    parser = arguments(__doc__, "device")
    parser.add_argument("--graphs", type=int, default=0, help="of each profile, for each target")
    parser.add_argument("--profiles", nargs="+", choices=graphs.GRAPHS, default=list(graphs.GRAPHS))
    parser.add_argument(
        "--targets", nargs="+", default=["ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256"]
    )
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    records = graphs.Records(args.out)
    graphs.run(records, args.graphs, args.targets, args.profiles)
    for log in (records.counts, records.odd):
        log.sort(sorted(log.records))  # type: ignore[type-var]
    text = summary(list(records.counts.records.values()), list(records.odd.records.values()))
    write_text(args.out / "summary.md", text)


if __name__ == "__main__":
    main()
