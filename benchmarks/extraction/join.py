"""Choice graphs of many e-nodes, to measure how extraction scales.

    python -m benchmarks.extraction.join --graphs DIR --size 100000 --out JOINED/100000.json.gz
    python -m benchmarks.extraction JOINED --json OUT

The choice graphs of a directory (`python -m benchmarks.extraction.zoo` writes those of delegates) are repeated in turn
and joined in a row until there are as many e-nodes: of the leaves that every choice needs, the one that is farthest
from the roots reads the roots of the next, so that all of the next is extracted with it. The costs of the k-th copy are
multiplied by k + 1, so that no two are equal.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from benchmarks.about import arguments
from benchmarks.extraction.run import instances
from extraction import ChoiceGraph
from extraction.derivation import derivable
from extraction.io import save


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


def main(argv: list[str] | None = None) -> None:
    """Joins the graphs of a directory and writes the result."""
    parser = arguments(__doc__)
    parser.add_argument("--graphs", type=Path, required=True, help="join the choice graphs of this directory")
    parser.add_argument("--size", type=int, default=100_000, help="number of e-nodes")
    parser.add_argument("--out", type=Path, required=True, help="file of the joined graph")
    args = parser.parse_args(argv)
    graphs = [i.load() for i in instances(args.graphs)]
    if not graphs:
        parser.error(f"{args.graphs} has no graphs")
    args.out.parent.mkdir(parents=True, exist_ok=True)
    save(joined(graphs, args.size), args.out)


if __name__ == "__main__":
    main()
