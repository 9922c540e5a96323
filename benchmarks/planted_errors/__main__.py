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
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from benchmarks.planted_errors import subjects
from benchmarks.planted_errors.run import in_subject
from benchmarks.study import Study, as_text, listed, markdown_table
from eqsat.bench.records import Record
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


#: Ways to group errors: title of the table, and the group of an error.
_GROUPS: dict[str, Callable[[Record], str]] = {
    "inputs": lambda p: str(p["inputs"]),
    "mean after it": lambda p: f"{p['pool']} x {p['pool']}" if p["pool"] else "none",
    "dtype": lambda p: p["dtype"],
    "graph": lambda p: (
        "random graphs" if p["subject"].startswith("random-") else "heads" if "-int" in p["subject"] else "networks"
    ),
    "planted as": lambda p: "wrong rule" if p["kind"].startswith("rule ") else "edit",
    "error": lambda p: p["kind"],
}


def summary(planted: Sequence[Record]) -> dict[str, int]:
    """Returns {what: number of errors}, over all planted errors.

    "not known" are those that neither change an output of an input that was tried nor are proved equivalent.
    """
    real = [p for p in planted if p["changes"]]
    equivalent = sum(p["equivalent"] and not p["changes"] for p in planted)
    return {
        "planted": len(planted),
        "equivalent": equivalent,
        "not known": len(planted) - len(real) - equivalent,
        "errors": len(real),
        **{part: sum(p[part] for p in real) for part in ("outputs", "passes")},
    }


def markdown(planted: Sequence[Record], about: Mapping[str, Any]) -> str:
    """Returns the tables as Markdown, one for each way to group the errors."""
    lines = [
        "# Planted errors",
        "",
        "Near-miss edits and rules, each changing an output for an input that a directed search or the prover found.",
        "The others are left out: equivalent ones, which the prover proves equal, and those of which neither is known.",
        "How many pass: the samples of outputs, and the proof, which decides.",
        "",
        f"{as_text(about)}.",
        "",
    ]
    for title, group in {"all": lambda p: "all", **_GROUPS}.items():
        rows = []
        for name in sorted({group(p) for p in planted}, key=lambda n: (len(n) if n[:1].isdigit() else 0, n)):
            s = summary([p for p in planted if group(p) == name])
            rows.append([name, *(s[c] for c in ("equivalent", "not known", "errors", "outputs")), f"**{s['passes']}**"])
        lines += markdown_table((title, "equivalent", "not known", "errors", "pass outputs", "**pass**"), rows)
    return "\n".join(lines)


STUDY = Study(__doc__, "planted_errors", options, cells, measure, markdown, passed)

if __name__ == "__main__":
    sys.exit(STUDY.main())
