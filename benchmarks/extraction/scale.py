"""How extraction scales: seconds and memory against the number of e-nodes, on made e-graphs.

    python -m benchmarks.extraction.scale --json OUT --plot OUT.svg

The graphs are layered like a network's: chains of blocks, several ways to compute each, parts shared
between neighbours. Each size runs in a process of its own, so that its peak memory is its own.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from extraction import ChoiceGraph, extract

SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)


def made_graph(n_nodes: int, seed: int = 0) -> ChoiceGraph:
    """A graph of about `n_nodes` e-nodes in 5 / 12 as many classes, costs 1 to 1,000.

    Each class reads up to three of the 20 classes that follow; one e-node in 50 reads a class
    before it, so there are cycles.
    """
    rng = random.Random(seed)
    n_classes = max(2, n_nodes * 5 // 12)
    rows = []
    for c in range(n_classes):
        below = range(c + 1, min(n_classes, c + 21))
        row = [
            (rng.randint(1, 1000), rng.sample(below, min(len(below), rng.randint(1, 3))))
            for _ in range(rng.choice((1, 2, 2, 3, 4)))
        ]
        if c and rng.random() < 0.05:
            row.append((rng.randint(1, 1000), [rng.randrange(max(0, c - 20), c)]))
        rows.append(row)
    return ChoiceGraph.build(rows, [0])


def measure(n_nodes: int, extractor: str, time_limit: float) -> dict:
    """One record; memory is that of this process and its largest child, MiB. Costs here are positive."""
    graph = made_graph(n_nodes)
    start = time.perf_counter()
    found = extract(graph, extractor, time_limit=time_limit)
    peak = sum(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return {
        "n_nodes": graph.n_nodes,
        "n_classes": graph.n_classes,
        "extractor": extractor,
        "cost": found.cost,
        "lower_bound": max(found.lower_bound, 0.0),
        "status": found.status,
        "seconds": time.perf_counter() - start,
        "peak_mib": peak / 1024,
    }


def plot(records: list[dict], path: Path) -> None:
    """Seconds and memory against e-nodes, both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for axis, key, label in ((axes[0], "seconds", "seconds"), (axes[1], "peak_mib", "peak memory [MiB]")):
        for extractor in dict.fromkeys(r["extractor"] for r in records):
            mine = [r for r in records if r["extractor"] == extractor]
            axis.plot([r["n_nodes"] for r in mine], [r[key] for r in mine], "o-", label=extractor)
        axis.set(xscale="log", yscale="log", xlabel="e-nodes", ylabel=label)
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    """Measure every size with every extractor, write records and plot."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.extraction.scale", description=__doc__)
    parser.add_argument("--extractors", default="tree_greedy,dag_greedy,portfolio")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--one", action="store_true", help="measure here and print; used for each size")
    args = parser.parse_args()
    extractors, sizes = args.extractors.split(","), [int(s) for s in args.sizes.split(",")]
    if args.one:
        print(json.dumps(measure(sizes[0], extractors[0], args.time_limit)))
        return
    records = []
    for extractor in extractors:
        for size in sizes:
            run = subprocess.run(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.extraction.scale",
                    "--one",
                    "--extractors",
                    extractor,
                    "--sizes",
                    str(size),
                    "--time-limit",
                    str(args.time_limit),
                    "--json",
                    str(args.json),
                ],
                capture_output=True,
                text=True,
                check=True,
            )
            records.append(json.loads(run.stdout))
            print(run.stdout.strip(), flush=True)
            args.json.write_text(json.dumps(records, indent=1) + "\n")
    if args.plot:
        plot(records, args.plot)


if __name__ == "__main__":
    main()
