"""Counts how many planted errors pass verification.

    python -m benchmarks.planted_errors --zoo DIR

DIR of --zoo has <model>.<delegate>.<target>.explicit.tosa, as `eqsat bench` saves them. There is a record per error.
Exit code 1 if an error passed.

Takes a proof and a run of the reference model for each error, about 1,000.
`--heads rescales,selection --edits 3` is quick.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

from benchmarks.planted_errors import subjects
from benchmarks.planted_errors.run import in_subject
from benchmarks.planted_errors.table import markdown
from benchmarks.study import Study, listed
from eqsat.bench.log import Record
from eqsat.ground.worker import Pool

_NETWORKS = ("pixel_shuffle", "ds_cnn", "streaming_tcn", "attention")


def cells(args: argparse.Namespace, _: object) -> Iterator[tuple[Record, tuple[int, subjects.Subject]]]:
    networks = subjects.saved(args.zoo, _NETWORKS) if args.zoo else ()
    few = (subjects.head(name, "INT8", 8, True) for name in args.heads)
    found = few if args.heads else chain(subjects.heads(), subjects.random_subjects(args.random), networks)
    yield from (({"subject": s.name}, (k, s)) for k, s in enumerate(found))


def measure(subject: tuple[int, subjects.Subject], args: argparse.Namespace) -> list[Record]:
    """Returns the records of the errors planted in a graph; every wrong rule is planted in every sixth one."""
    (number, graph), with_rules = subject, subject[0] % 6 == 0 and not args.heads
    with Pool() as pool:
        return list(in_subject(graph, number, args.edits, with_rules, pool))


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--zoo", type=Path, help="directory of saved networks")
    parser.add_argument("--random", type=int, default=16, help="random graphs")
    parser.add_argument("--edits", type=int, default=4, help="errors per graph, at most")
    parser.add_argument("--heads", type=listed, default=[], help="only edits in small forms of these heads")


def passed(records: Sequence[Record]) -> list[str]:
    return [f"{r['subject']}: {r['kind']}" for r in records if r["passes"]]


STUDY = Study(__doc__, "planted_errors", options, cells, measure, markdown, passed)

if __name__ == "__main__":
    sys.exit(STUDY.main())
