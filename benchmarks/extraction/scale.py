"""How extraction scales: seconds, memory and gap against the number of e-nodes.

    python -m benchmarks.extraction.scale --graphs DIR --sizes 10000,100000 --json OUT

The choice graphs of a directory (`python -m benchmarks.extraction.zoo` writes those of delegates) are repeated in turn
and joined in a row until there are as many e-nodes: of the leaves that every choice needs, the one that is farthest
from the roots reads the roots of the next, so that all of the next is extracted with it. The costs of the k-th copy are
multiplied by k + 1, so that no two are equal. Each size runs in a process of its own; memory is that of the process and
all that it starts.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

from benchmarks.about import about, arguments, as_text, listed, markdown_table, write_text
from benchmarks.extraction.run import Instance, cpu_seconds, instances
from eqsat.bench.log import Record
from eqsat.ground.process import Limits, Process, WorkerError
from extraction import ChoiceGraph, extract
from extraction.derivation import derivable

#: The name of this module, also if it is run as a program.
_NAME = "benchmarks.extraction.scale"
_PACKAGES = ("clingo", "networkx", "numpy")
#: MiB at which a process is ended.
MOST = 12 * 1024


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


def joined(graphs: Sequence[ChoiceGraph], n_nodes: int) -> ChoiceGraph:
    """Returns the graphs in turn and in a row, until there are `n_nodes` e-nodes.

    The k-th graph of the row costs k + 1 times as much, k from 0.
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
        classes, times = len(rows), 1 + k
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


def measure(n_nodes: int, extractor: str, time_limit: float, paths: Sequence[str]) -> Record:
    """Returns the record of one extraction.

    Costs are positive, so no bound is below 0.
    """
    graph = joined([Instance(p, Path(p)).load() for p in paths], n_nodes)
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


def record_of(n_nodes: int, extractor: str, time_limit: float, paths: Sequence[str]) -> Record:
    """Returns the record of `measure` in a process of its own, with its peak memory in MiB."""
    record: Record = {"size": n_nodes, "extractor": extractor, "time_limit": time_limit}
    record |= {"graphs": [Path(p).name.split(".json")[0] for p in paths], **about(_PACKAGES)}
    with Process(_NAME) as process:
        try:
            record |= process.call(
                f"{_NAME}:measure", n_nodes, extractor, time_limit, list(paths), limits=Limits(mib=MOST)
            )
        except WorkerError as e:
            record["error"] = str(e)
        return record | {"peak_mib": process.peak_mib}


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
    ]
    rows: list[list[object]] = []
    for r in records:
        if "error" in r:
            rows.append([r["extractor"], r["error"], f"{r['size']:,}", "", "", "", f"{r['peak_mib']:,.0f}", "", "", ""])
            continue
        gap = f"{r['gap']:.4%}" if r["lower_bound"] and math.isfinite(r["gap"]) else "-"
        whole = (f"{r[k]:,.0f}" for k in ("peak_mib", "cost", "lower_bound"))
        sizes = (f"{r[k]:,}" for k in ("n_nodes", "n_classes"))
        rows.append(
            [r["extractor"], r["status"], *sizes, f"{r['seconds']:.1f}", f"{r['cpu_seconds']:.1f}", *whole, gap]
        )
    head = ("e-nodes", "classes", "seconds", "processor seconds", "peak, MiB", "cost", "bound", "gap")
    return "\n".join([*lines, *markdown_table(("extractor", "status", *head), rows, names=2)])


def main(argv: list[str] | None = None) -> None:
    """Measures every size with every extractor, and writes records and table."""
    parser = arguments(__doc__)
    parser.add_argument("--graphs", type=Path, required=True, help="join the choice graphs of this directory")
    parser.add_argument("--sizes", default="10000,100000", help="numbers of e-nodes")
    parser.add_argument("--extractors", default="dag_greedy,portfolio")
    parser.add_argument("--time-limit", type=float, default=60.0)
    parser.add_argument("--json", type=Path, required=True, help="records; those that it has are not measured again")
    parser.add_argument("--markdown", type=Path, help="table")
    args = parser.parse_args(argv)
    paths = [str(i.path) for i in instances(args.graphs)]
    if not paths:
        parser.error(f"{args.graphs} has no graphs")
    records: list[dict[str, Any]] = json.loads(args.json.read_text()) if args.json.exists() else []
    for extractor in listed(args.extractors):
        for size in map(int, listed(args.sizes)):
            cell = {"size": size, "extractor": extractor, "time_limit": args.time_limit}
            if any(cell.items() <= r.items() for r in records):
                continue
            records.append(record_of(size, extractor, args.time_limit, paths))
            print(json.dumps(records[-1]), flush=True)
            write_text(args.json, json.dumps(records, indent=1) + "\n")
    if args.markdown:
        write_text(args.markdown, markdown(records))


if __name__ == "__main__":
    main()
