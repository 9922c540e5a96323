"""Soundness at scale: random legal graphs and the e-graphs of real networks, every e-node evaluated, extractions run on
the reference model.

    python -m benchmarks.random_graphs --graphs 1000 --seed 0 --target ethos-u85-256,ethos-u55-128 --out OUT
    python -m benchmarks.random_graphs --zoo DIR --out OUT

Graph k has the seed `seed + k` and the k-th of the targets in turn. `records.jsonl` has a line per graph, `zoo.jsonl`
one per network; an interrupted run goes on where it stopped, unless the sources have changed: then it begins anew. A
graph that fails is saved in `failures/`, as it was drawn and shrunk. Exit code 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Sequence
from functools import cache
from operator import itemgetter
from pathlib import Path

from benchmarks.about import write_about
from benchmarks.random_graphs import networks
from benchmarks.random_graphs.shrink import shrink
from benchmarks.random_graphs.table import markdown, summary
from benchmarks.random_graphs.trial import run
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.fingerprint import digest, fingerprint
from eqsat.bench.log import Log
from eqsat.egraph.rule import Rule
from eqsat.ground.versions import PACKAGES
from eqsat.ground.worker import Pool
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from tests.random_graphs import random_graph

ROOT = Path(__file__).parents[2]


@cache
def version() -> str:
    """Returns a digest of the code on which the records depend."""
    roots = ["benchmarks.random_graphs.trial", "tests.random_graphs"]
    return digest(measuring_fingerprint(), fingerprint(roots, packages=(*PACKAGES, "benchmarks", "tests")))


def opened(path: Path, *identity: str) -> Log:
    """Returns the log of a file, with the records that this version of the code made."""
    return Log(path, itemgetter(*identity), lambda r: r.get("sources") == version())


def _kind(failure: str) -> str:
    """Returns the first words of a failure without numbers, by which failures are alike."""
    return " ".join(re.sub(r"\d+|:.*", "", failure).split()[:3])


def graphs(
    log: Log,
    seeds: Sequence[int],
    targets: Sequence[Target],
    rules: Sequence[Rule] = RULES,
    full_every: int = 0,
) -> None:
    """Adds the records of the graphs of `seeds` that are not in `log` yet.

    full_every: the whole optimizer, too, runs on each of so many graphs of a target; 0 for none.
    """
    directory = log.path.parent / "failures"
    with Pool(1) as pool:
        for k, seed in enumerate(seeds):
            target = targets[k % len(targets)]
            if (seed, target.accelerator) in log.records:
                continue
            graph = random_graph(seed)
            record = run(
                graph, seed, target, pool, rules, full=bool(full_every) and k // len(targets) % full_every == 0
            )
            log.add({**record.as_dict(), "sources": version()})
            if record.failures:
                kinds = {_kind(f) for f in record.failures}
                print(seed, target.accelerator, record.failures[0], flush=True)

                def fails(g: TensorGraph, seed=seed, target=target, kinds=kinds) -> bool:
                    return bool(kinds & {_kind(f) for f in run(g, seed, target, pool, rules).failures})

                directory.mkdir(exist_ok=True)
                (directory / f"{seed}.{target.accelerator}.tosa").write_bytes(dumps(graph))
                (directory / f"{seed}.{target.accelerator}.small.tosa").write_bytes(dumps(shrink(graph, fails)))


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0, help="of the first graph")
    parser.add_argument("--target", default="ethos-u85-256,ethos-u55-128", help="one or more, taken in turn")
    parser.add_argument(
        "--full-every",
        type=int,
        default=25,
        help="every how many graphs of a target the whole optimizer runs too; 0: never",
    )
    parser.add_argument("--zoo", type=Path, help="directory of <model>.<delegate>.<target>.explicit.tosa")
    parser.add_argument("--match", default="", help="only files of the zoo whose name contains this")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/random_graphs")
    args = parser.parse_args(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    log, checked = opened(args.out / "records.jsonl", "seed", "target"), opened(args.out / "zoo.jsonl", "name")
    graphs(
        log,
        range(args.seed, args.seed + args.graphs),
        [Target.of(t) for t in args.target.split(",")],
        full_every=args.full_every,
    )
    if args.zoo:
        for path in networks.saved(args.zoo):
            if path.name.removesuffix(".explicit.tosa") not in checked.records and args.match in path.name:
                record = networks.check_file(path, RULES)
                checked.add({**record, "sources": version()})
                print(json.dumps(record), flush=True)
    found = summary(list(log.records.values()), list(checked.records.values()), RULES)
    (args.out / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    (args.out / "table.md").write_text(markdown(found, RULES))
    write_about(args.out, ("eqsat", "ethos-u-vela", "tosa-tools", "egglog"))
    never = ", ".join(found["never"]) or "none"
    print(f"{found['graphs']} graphs, {len(found['failures'])} failures; rules that never matched: {never}")
    return 1 if found["failures"] or any(z["failure"] for z in found["zoo"]) else 0


if __name__ == "__main__":
    sys.exit(main())
