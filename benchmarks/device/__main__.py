"""Runs binaries of random graphs on the functional model, and compares them with the TOSA reference model.

    python -m benchmarks.device --graphs 500 --targets ethos-u55-128,ethos-u65-512

Graph k of a profile has the seed k. A record has what became of some graphs of a profile, with the version of Vela and
the commit, and each graph that is not equal has one of its own. A binary that differs is laid to a known defect of Vela
(`eqsat/vela/defects.py`) where the part of the graph that has the defect's pattern differs by itself, or is among what
the graph is cut down to. What becomes of networks, the records of `eqsat bench` say.

Takes two hours for 45,000 graphs.
"""

from __future__ import annotations

import argparse

from benchmarks.device import graphs
from benchmarks.device.table import summary
from benchmarks.study import Study, listed

_TARGETS = ["ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256"]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", type=int, default=0, help="of each profile, for each target")
    parser.add_argument("--profiles", nargs="+", choices=graphs.GRAPHS, default=list(graphs.GRAPHS))
    parser.add_argument("--targets", type=listed, default=_TARGETS)


STUDY = Study(__doc__, "device", options, graphs.cells, graphs.measure, summary, sources=graphs.sources)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
