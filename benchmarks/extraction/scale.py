"""How extraction scales: seconds, memory and gap against the number of e-nodes.

    python -m benchmarks.extraction.scale --json OUT --plot OUT.svg                      # made e-graphs
    python -m benchmarks.extraction.scale --graphs DIR --sizes 10000,100000 --json OUT   # joined ones

Made graphs are layered like a network's: chains of blocks, several ways to compute each, parts shared between
neighbours. With --graphs, the choice graphs of a directory (`python -m benchmarks.extraction.zoo` writes those of
delegates) are repeated in turn and joined in a row until there are as many e-nodes: of the leaves that every choice
needs, the one that is farthest from the roots reads the roots of the next, so that all of the next is extracted with
it. --different multiplies the costs of the k-th copy by k + 1, so that no two are equal. Each size runs in a process of
its own; memory is that of the process and all that it starts.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.about import about, as_text
from benchmarks.extraction.run import Instance, cpu_seconds, instances
from eqsat.bench.log import Record
from eqsat.ground.files import write_atomically
from eqsat.ground.process import Limits, Process, WorkerError
from extraction import ChoiceGraph, extract
from extraction.derivation import derivable

#: Numbers of e-nodes.
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000)
#: The name of this module, also if it is run as a program.
_NAME = "benchmarks.extraction.scale"
_PACKAGES = ("highspy", "clingo", "networkx", "numpy")
#: MiB at which a process is ended.
MOST = 12 * 1024


def made_graph(n_nodes: int, seed: int = 0) -> ChoiceGraph:
    """Returns a graph of about `n_nodes` e-nodes in 5 / 12 as many classes, with costs from 1 to 1,000.

    Each e-node reads up to three of the 20 classes that follow.
    One class in 20 has an e-node that reads a class before it, so there are cycles.
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


def farthest_leaf(graph: ChoiceGraph) -> int:
    """Returns the e-node that is farthest from the roots, by the fewest classes between.

    It is the only one of its class, reads nothing, and every choice needs it.
    Raises ValueError if there is no such e-node.
    """
    far = dict.fromkeys(graph.roots, 0)
    queue, leaves = deque(graph.roots), []
    while queue:
        c = queue.popleft()
        nodes = graph.class_nodes(c)
        if len(nodes) == 1 and not graph.children(nodes[0]):
            leaves.append(nodes[0])
        for d in (d for n in nodes for d in graph.children(n) if d not in far):
            far[d] = far[c] + 1
            queue.append(d)
    found = next((n for n in reversed(leaves) if not derivable(graph, [n])), None)
    if found is None:
        raise ValueError("every choice of the graph can do without any of its leaves: nothing can be joined to it")
    return found


def joined(graphs: Sequence[ChoiceGraph], n_nodes: int, different: bool = False) -> ChoiceGraph:
    """Returns the graphs in turn and in a row, until there are `n_nodes` e-nodes.

    different: whether the k-th graph of the row costs k + 1 times as much, k from 0.
    Raises ValueError if there are no graphs.
    """
    rows: list[list[tuple[float, list[int]]]] = []
    pairs: dict[tuple[int, int], float] = {}
    forbidden: list[int] = []
    forbidden_pairs: list[tuple[int, int]] = []
    per_reader: list[int] = []
    leaves = [farthest_leaf(g) for g in graphs]
    nodes, link = 0, None
    for k, (graph, leaf) in enumerate(cycle(zip(graphs, leaves, strict=True))):
        classes, times = len(rows), 1 + k * different
        if link is not None:
            link.extend(classes + r for r in graph.roots)
        for c in range(graph.n_classes):
            own = graph.class_nodes(c)
            rows.append([(times * float(graph.cost[n]), [classes + d for d in graph.children(n)]) for n in own])
        pairs |= {(nodes + n, nodes + m): times * d for (n, m), d in graph.pair_costs.items()}
        forbidden += [nodes + n for n in graph.forbidden]
        forbidden_pairs += [(nodes + n, nodes + m) for n, m in graph.forbidden_pairs]
        per_reader += [classes + c for c in graph.per_reader]
        link = rows[classes + int(graph.node_class[leaf])][0][1]
        nodes += graph.n_nodes
        if nodes >= n_nodes:
            return ChoiceGraph.build(rows, graphs[0].roots, pairs, forbidden, forbidden_pairs, per_reader)
    raise ValueError("there are no graphs to join")


def measure(n_nodes: int, extractor: str, time_limit: float, paths: Sequence[str], different: bool) -> Record:
    """Returns the record of one extraction.

    Costs are positive, so no bound is below 0.
    """
    graph = joined([Instance(p, Path(p)).load() for p in paths], n_nodes, different) if paths else made_graph(n_nodes)
    start, before = time.perf_counter(), cpu_seconds()
    found = extract(graph, extractor, time_limit=time_limit)
    seconds, processor = time.perf_counter() - start, cpu_seconds() - before
    bound = max(found.lower_bound, 0.0)
    return {
        "n_nodes": graph.n_nodes,
        "n_classes": graph.n_classes,
        "cost": found.cost,
        "lower_bound": bound,
        "gap": (found.cost - bound) / found.cost,
        "status": found.status,
        "seconds": seconds,
        "cpu_seconds": processor,
    }


def record_of(n_nodes: int, extractor: str, time_limit: float, paths: Sequence[str], different: bool) -> Record:
    """Returns the record of `measure` in a process of its own, with its peak memory in MiB."""
    record: Record = {"size": n_nodes, "extractor": extractor, "time_limit": time_limit, "different": different}
    record |= {"graphs": [Path(p).name.split(".json")[0] for p in paths], **about(_PACKAGES)}
    with Process(_NAME) as process:
        try:
            record |= process.call(
                f"{_NAME}:measure", n_nodes, extractor, time_limit, list(paths), different, limits=Limits(mib=MOST)
            )
        except WorkerError as e:
            record["error"] = str(e)
        return record | {"peak_mib": process.peak_mib}


def plot(records: Sequence[Record], path: Path) -> None:
    """Draws seconds and memory against e-nodes, with both axes logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 4))
    for axis, key, label in ((axes[0], "seconds", "seconds"), (axes[1], "peak_mib", "peak memory [MiB]")):
        for extractor in dict.fromkeys(r["extractor"] for r in records):
            mine = [r for r in records if r["extractor"] == extractor and "error" not in r]
            axis.plot([r["n_nodes"] for r in mine], [r[key] for r in mine], "o-", label=extractor)
        axis.set(xscale="log", yscale="log", xlabel="e-nodes", ylabel=label)
        axis.grid(True, which="both", alpha=0.3)
        axis.legend()
    figure.tight_layout()
    figure.savefig(path)


def markdown(records: Sequence[Record]) -> str:
    """Returns the versions, and a line per record, as Markdown."""
    measured_with = dict.fromkeys(as_text(r) for r in records)
    joined = dict.fromkeys(", ".join(r["graphs"]) for r in records if r["graphs"])
    lines = [
        "# E-graphs of many e-nodes",
        "",
        *(f"{text}." for text in measured_with),
        *(f"Joined in turn and in a row: {graphs}." for graphs in joined),
        "",
        "| e-nodes | classes | extractor | all different | seconds | processor seconds | peak, MiB | cost | bound | "
        "gap |",
        "|--:|--:|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for r in records:
        kind = "yes" if r["different"] else "no"
        if "error" in r:
            lines.append(
                f"| {r['size']:,} | | {r['extractor']} | {kind} | {r['error']} | | {r['peak_mib']:,.0f} | | | |"
            )
            continue
        gap = f"{r['gap']:.4%}" if r["lower_bound"] and math.isfinite(r["gap"]) else "-"
        lines.append(
            f"| {r['n_nodes']:,} | {r['n_classes']:,} | {r['extractor']} | {kind} | {r['seconds']:.1f} | "
            f"{r['cpu_seconds']:.1f} | {r['peak_mib']:,.0f} | {r['cost']:,.0f} | {r['lower_bound']:,.0f} | {gap} |"
        )
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> None:
    """Measures every size with every extractor, and writes records, table and plot."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.extraction.scale",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--extractors", default="tree_greedy,dag_greedy,portfolio")
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--graphs", type=Path, help="join the choice graphs of this directory")
    parser.add_argument("--different", action="store_true", help="no two of the joined graphs are equal")
    parser.add_argument("--json", type=Path, required=True, help="records; those that it has are not measured again")
    parser.add_argument("--markdown", type=Path, help="table")
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args(argv)
    paths = [str(i.path) for i in instances(args.graphs)] if args.graphs else []
    if args.graphs and not paths:
        parser.error(f"{args.graphs} has no graphs")
    records: list[dict[str, Any]] = json.loads(args.json.read_text()) if args.json.exists() else []
    for extractor in args.extractors.split(","):
        for size in map(int, args.sizes.split(",")):
            cell = {"size": size, "extractor": extractor, "time_limit": args.time_limit, "different": args.different}
            if any(cell.items() <= r.items() for r in records):
                continue
            records.append(record_of(size, extractor, args.time_limit, paths, args.different))
            print(json.dumps(records[-1]), flush=True)
            write_atomically(args.json, (json.dumps(records, indent=1) + "\n").encode())
    if args.markdown:
        write_atomically(args.markdown, markdown(records).encode())
    if args.plot and any("error" not in r for r in records):
        plot(records, args.plot)


if __name__ == "__main__":
    main()
