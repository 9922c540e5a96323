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
from collections import Counter, defaultdict
from collections.abc import Sequence

from benchmarks.device import graphs
from benchmarks.study import Study, listed, markdown_table
from eqsat.bench.records import Record

_TARGETS = ["ethos-u55-128", "ethos-u65-256", "ethos-u65-512", "ethos-u85-256"]


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", type=int, default=0, help="of each profile, for each target")
    parser.add_argument("--profiles", nargs="+", choices=graphs.GRAPHS, default=list(graphs.GRAPHS))
    parser.add_argument("--targets", type=listed, default=_TARGETS)


#: Outcomes of a graph, in the order of the columns.
_OUTCOMES = ("equal", "differs", "not run", "refused", "failed")


def summary(records: Sequence[Record], _: object) -> str:
    """Returns all tables; records without a seed count graphs."""
    counts, odd = ([r for r in records if ("seed" in r) is is_odd] for is_odd in (False, True))
    commits = f"Commits: {', '.join(sorted({r['commit'] for r in records}))}."
    tables = (*_graphs(counts, odd), *_differing(odd), *_unmatched(counts, odd), *_operators(counts))
    return "\n".join(["# Binaries on the functional model", "", commits, "", *tables])


def _graphs(counts: Sequence[Record], odd: Sequence[Record]) -> list[str]:
    unexplained = Counter((r["vela"], r["target"]) for r in odd if r["outcome"] == "differs" and not r["defect"])
    whole, by_profile = (defaultdict[tuple[str, ...], Counter[str]](Counter) for _ in range(2))
    for r in counts:
        whole[r["vela"], r["target"]] += Counter(r["outcomes"])
        by_profile[r["vela"], r["target"], r["profile"]] += Counter(r["outcomes"])
    wholes = (
        [*key, c.total(), c["equal"] + c["differs"], *(c[o] for o in _OUTCOMES), unexplained[key]]
        for key, c in sorted(whole.items())
    )
    profiles = ([*key, *(c[o] for o in _OUTCOMES)] for key, c in sorted(by_profile.items()))
    return [
        "## Random graphs",
        "",
        "Of those that differ each holds a known defect of that version of Vela (below), but for those that the last column counts.",
        "",
        *markdown_table(("Vela", "target", "graphs", "run", *_OUTCOMES, "differs, unexplained"), wholes, names=2),
        *markdown_table(("Vela", "target", "profile", *_OUTCOMES), profiles, names=3),
    ]


def _differing(odd: Sequence[Record]) -> list[str]:
    by_defect: defaultdict[str, Counter[tuple[str, str]]] = defaultdict(Counter)
    for r in odd:
        if r["outcome"] == "differs":
            by_defect[r["defect"] or "unexplained"][r["vela"], r["target"]] += 1
    columns = sorted({c for found in by_defect.values() for c in found})
    rows = ([d, *(c[k] for k in columns)] for d, c in sorted(by_defect.items(), key=lambda i: -i[1].total()))
    head = ("defect", *(f"{v} {t}" for v, t in columns))
    return ["## What differs, by defect of Vela", "", *markdown_table(head, rows)]


def _unmatched(counts: Sequence[Record], odd: Sequence[Record]) -> list[str]:
    reasons = Counter(f"{r['outcome']}: {r['reason'].rpartition(': ')[2]}" for r in odd if r["outcome"] != "differs")
    refusals = sum((Counter(r["refusals"]) for r in counts), Counter[str]())
    return [
        "## What is not run",
        "",
        *(f"* {n} {reason}" for reason, n in reasons.most_common()),
        "",
        "## What Vela refuses",
        "",
        *(f"* {n} {reason}" for reason, n in refusals.most_common()),
        "",
    ]


def _operators(counts: Sequence[Record]) -> list[str]:
    """Returns the counts of graphs by family, by the operators that they have."""
    found: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    for r in counts:
        for o, c in r["operators"].items():
            found[o, r["target"].split("-")[1]] += Counter(c)
    operators, families = (sorted({key[k] for key in found}) for k in (0, 1))
    rows = ([o, *(" / ".join(str(found[o, f][k]) for k in _OUTCOMES[:3]) for f in families)] for o in operators)
    return [
        "## Graphs by operator and dtype",
        "",
        "Equal, different and not run; what differs does so for a defect of Vela, most often another operator's.",
        "",
        *markdown_table(("operator", *families), rows),
    ]


STUDY = Study(__doc__, "device", options, graphs.cells, graphs.measure, summary, sources=graphs.sources)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
