"""Reading and writing choice graphs: our own JSON, and extraction-gym's, which egglog writes, too.

Our format keeps everything (`save`, `load`; gzip if the name ends in .gz); it is one object:

    {"format": "choice-graph", "version": 1,
     "classes": [[[cost, [child class, ...]], ...], ...],    e-nodes, class by class
     "roots": [class, ...],
     "pair_costs": [[n, m, delta], ...],       e-nodes are numbered class by class
     "forbidden": [n, ...], "forbidden_pairs": [[n, m], ...], "per_reader": [class, ...],
     "names": [label, ...] or null}

extraction-gym's format is that of github.com/egraphs-good/extraction-gym.
egglog's `EGraph._serialize().to_json()` writes it, too.
It has nodes `{id: {op, cost, eclass, children}}` and `root_eclasses`.
Children are ids of e-nodes that stand for their classes.
Pair terms do not fit in it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqsat.ground.packed import UnpackError, pack_json, unpack_json

from .errors import InvalidGraph
from .graph import ChoiceGraph

#: The "format" of our JSON.
FORMAT = "choice-graph"

#: The "version" of our JSON.
VERSION = 1


@contextmanager
def _as_invalid_graph(what: str) -> Iterator[None]:
    """Within it errors of malformed data, called `what`, become InvalidGraph."""
    try:
        yield
    except InvalidGraph:
        raise
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError) as e:
        raise InvalidGraph(f"a malformed {what} ({type(e).__name__}: {e}); write it again") from e


def to_json(graph: ChoiceGraph) -> dict[str, Any]:
    """Returns `graph` as an object of our format."""
    cost = [graph.total(x) for x in graph.cost.tolist()]
    return {
        "format": FORMAT,
        "version": VERSION,
        "classes": [[[cost[n], list(graph.children(n))] for n in graph.class_nodes(c)] for c in range(graph.n_classes)],
        "roots": list(graph.roots),
        "pair_costs": [[n, m, graph.total(d)] for (n, m), d in graph.pair_costs.items()],
        "forbidden": sorted(graph.forbidden),
        "forbidden_pairs": sorted(map(list, graph.forbidden_pairs)),
        "per_reader": sorted(graph.per_reader),
        "names": None if graph.names is None else list(graph.names),
    }


@_as_invalid_graph(FORMAT)
def from_json(data: Mapping[str, Any]) -> ChoiceGraph:
    """Returns the graph of an object of our format.

    Raises InvalidGraph on another format or version, and on malformed data.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT or data.get("version") != VERSION:
        found = (data.get("format"), data.get("version")) if isinstance(data, Mapping) else type(data).__name__
        raise InvalidGraph(f"not a {FORMAT} of version {VERSION}: {found}")
    return ChoiceGraph.build(
        data["classes"],
        data["roots"],
        pair_costs={(n, m): d for n, m, d in data["pair_costs"]},
        forbidden=data["forbidden"],
        forbidden_pairs=[(n, m) for n, m in data["forbidden_pairs"]],
        per_reader=data["per_reader"],
        names=data["names"],
    )


def save(graph: ChoiceGraph, path: str | Path) -> None:
    """Writes `graph` in our format."""
    _write(path, to_json(graph))


def load(path: str | Path) -> ChoiceGraph:
    """Reads a graph in our format.

    Raises InvalidGraph on another format or version, and on a damaged file; OSError if there is none.
    """
    return from_json(read_json(path))


def read_gym(path: str | Path) -> ChoiceGraph:
    """Reads an extraction-gym file; labels are the ops.

    Raises InvalidGraph, OSError.
    """
    return parse_gym(read_json(path))


@_as_invalid_graph("extraction-gym file")
def parse_gym(data: Mapping[str, Any], skip_missing_roots: bool = False) -> ChoiceGraph:
    """Returns the graph of an extraction-gym (or egglog) object.

    skip_missing_roots: pass over roots without e-nodes.
    (A file written after a union may name the class that was merged away.)
    Raises InvalidGraph on a child or root that does not exist, and on malformed data.
    """
    nodes = data["nodes"]
    number = {c: i for i, c in enumerate(dict.fromkeys(node["eclass"] for node in nodes.values()))}
    rows: list[list[tuple[float, list[int]]]] = [[] for _ in number]
    names: list[list[str]] = [[] for _ in number]
    for i, node in nodes.items():
        try:
            children = [number[nodes[child]["eclass"]] for child in node["children"]]
        except KeyError as missing:
            raise InvalidGraph(f"e-node {i} reads {missing}, which does not exist") from None
        c = number[node["eclass"]]
        rows[c].append((node.get("cost", 1.0), children))
        names[c].append(str(node.get("op", i)))
    roots = [r for r in data["root_eclasses"] if not skip_missing_roots or r in number]
    missing_roots = [r for r in roots if r not in number]
    if missing_roots:
        raise InvalidGraph(f"root class {missing_roots[0]!r} does not exist")
    return ChoiceGraph.build(rows, [number[r] for r in roots], names=[name for group in names for name in group])


def write_gym(graph: ChoiceGraph, path: str | Path) -> None:
    """Writes `graph` as an extraction-gym file; a forbidden e-node gets an infinite cost.

    Raises InvalidGraph if the format cannot hold the graph.
    It has no pair terms, no per-reader classes, and no class without e-nodes that is read.
    """
    if graph.pair_costs or graph.forbidden_pairs or graph.per_reader:
        raise InvalidGraph("extraction-gym's format has no pair terms and no per-reader classes; use save")
    nodes: dict[str, Any] = {}
    for n in range(graph.n_nodes):
        children = []
        for d in graph.children(n):
            if not graph.class_nodes(d):
                raise InvalidGraph(f"class {d} has no e-node to refer to it by")
            children.append(str(graph.class_nodes(d)[0]))
        nodes[str(n)] = {
            "op": graph.name(n),
            "children": children,
            "eclass": str(int(graph.node_class[n])),
            "cost": math.inf if n in graph.forbidden else graph.total(float(graph.cost[n])),
        }
    _write(path, {"nodes": nodes, "root_eclasses": [str(r) for r in graph.roots], "class_data": {}})


def read_json(path: str | Path) -> Any:
    """Returns the content of a JSON file, gzip'd or not.

    Raises InvalidGraph if it is damaged or unpacks to more than is allowed; OSError if there is none.
    """
    try:
        return unpack_json(Path(path).read_bytes())
    except UnpackError as e:
        raise InvalidGraph(f"{path} cannot be read: {e}; write it again") from e


def _write(path: str | Path, data: Any) -> None:
    packed = str(path).endswith(".gz")
    Path(path).write_bytes(pack_json(data) if packed else json.dumps(data).encode())
