"""Reading and writing choice graphs: our own JSON, and that of extraction-gym and egglog.

Our format keeps everything (`save`, `load`; gzip if the name ends in .gz); it is one object:

    {"format": "choice-graph", "version": 1,
     "classes": [[[cost, [child class, ...]], ...], ...],    e-nodes, class by class
     "roots": [class, ...],
     "pair_costs": [[n, m, delta], ...],       e-nodes are numbered class by class
     "forbidden": [n, ...],
     "names": [label, ...] or null}

The format of github.com/egraphs-good/extraction-gym, which egglog's `EGraph._serialize().to_json()` writes, too, has
nodes `{id: {op, cost, eclass, children}}` and `root_eclasses`.
Children are ids of e-nodes that stand for their classes.
Pair terms become extra e-nodes (`to_gym`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eqsat.ground.packed import UnpackError, pack_json, unpack_json
from extraction.graph import ChoiceGraph, InvalidGraph

#: The "format" of our JSON.
FORMAT = "choice-graph"

#: The "version" of our JSON.
VERSION = 1

#: Keys of older files for costs and conditions that no longer exist; they must be empty.
GONE = ("forbidden_pairs", "per_reader")


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
        "names": None if graph.names is None else list(graph.names),
    }


@_as_invalid_graph(FORMAT)
def from_json(data: Mapping[str, Any]) -> ChoiceGraph:
    """Returns the graph of an object of our format.

    Raises InvalidGraph on another format or version, on a key of `GONE` that is not empty, and on malformed data.
    """
    if not isinstance(data, Mapping) or data.get("format") != FORMAT or data.get("version") != VERSION:
        found = (data.get("format"), data.get("version")) if isinstance(data, Mapping) else type(data).__name__
        raise InvalidGraph(f"not a {FORMAT} of version {VERSION}: {found}")
    if gone := [key for key in GONE if data.get(key)]:
        raise InvalidGraph(f'this {FORMAT} has "{gone[0]}", which is no longer supported')
    return ChoiceGraph.build(
        data["classes"],
        data["roots"],
        pair_costs={(n, m): d for n, m, d in data["pair_costs"]},
        forbidden=data["forbidden"],
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
    """Reads an extraction-gym file; labels are the ops. Raises InvalidGraph, OSError."""
    return parse_gym(read_json(path))


@_as_invalid_graph("extraction-gym file")
def parse_gym(data: Mapping[str, Any], skip_missing_roots: bool = False) -> ChoiceGraph:
    """Returns the graph of an extraction-gym (or egglog) object.

    skip_missing_roots: pass over roots without e-nodes; a file written after a union may name a class merged away.
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


def write_gym(graph: ChoiceGraph, path: str | Path, *, pair_terms: bool = True) -> str:
    """Writes `graph` as an extraction-gym file (`to_gym`), and returns its note.

    Raises InvalidGraph if the format cannot hold the graph.
    """
    data = to_gym(graph, pair_terms=pair_terms)
    _write(path, data)
    return str(data["note"])


def to_gym(graph: ChoiceGraph, *, pair_terms: bool = True) -> dict[str, Any]:
    """Returns `graph` as an extraction-gym object, whose "note" says in what it differs.

    E-node 7 has the id "7", and class 3 the id "3".
    Forbidden e-nodes are left out, with those that could read nothing else.
    pair_terms: whether pair terms become extra e-nodes; if not, they are left out.
    An e-node 7 with terms to class 3 then reads a class "7>3".
    Its e-node "7>5" stands for e-node 5 of class 3: it reads 5, and costs the term.
    The least term of a class is part of the cost of 7, as extractors expect costs of 0 and more.
    Raises InvalidGraph if there is a root without e-nodes.
    """
    pairs = graph.pair_terms() if pair_terms else {}
    usable = _usable(graph)
    kept = [[n for n in graph.class_nodes(c) if n in usable] for c in range(graph.n_classes)]
    if empty := [r for r in graph.roots if not kept[r]]:
        raise InvalidGraph(f"root class {empty[0]} has no e-node that may be chosen")
    alone = {c for n, c in pairs if n in usable}
    nodes: dict[str, Any] = {}

    def add(name: str, op: str, cost: float, eclass: str, children: list[str]) -> None:
        nodes[name] = {"op": op, "cost": graph.total(cost), "eclass": eclass, "children": children}

    for n in sorted(usable):
        c, cost, reads = int(graph.node_class[n]), float(graph.cost[n]), dict[int, str]()
        for d in graph.reads[n]:
            terms = {m: pairs.get((n, d), {}).get(m, 0.0) for m in kept[d]}
            least = min(terms.values())
            reads[d] = f"{kept[d][0]}=" if d in alone else str(kept[d][0])
            if (n, d) in pairs:
                cost += least
                for m, delta in terms.items():
                    reads[d] = f"{n}>{m}"
                    add(reads[d], "=", delta - least, f"{n}>{d}", [str(m)])
        add(str(n), graph.name(n), cost, f"{c}.{n}" if c in alone else str(c), [reads[d] for d in graph.children(n)])
        if c in alone:
            add(f"{n}=", "=", 0.0, str(c), [str(n)])
    note = _note(graph, pair_terms, graph.n_nodes - len(usable))
    return {"nodes": nodes, "root_eclasses": [str(r) for r in graph.roots], "class_data": {}, "note": note}


def _usable(graph: ChoiceGraph) -> set[int]:
    """Returns the e-nodes that are not forbidden, and that have something to read in each of their classes."""
    left, before = set(range(graph.n_nodes)) - graph.forbidden, -1
    while len(left) != before:
        before = len(left)
        filled = {int(graph.node_class[n]) for n in left}
        left = {n for n in left if filled.issuperset(graph.reads[n])}
    return left


def _note(graph: ChoiceGraph, pair_terms: bool, gone: int) -> str:
    """Returns what an extraction-gym object says of its difference to a graph."""
    terms, said = len(graph.pair_costs), list[str]()
    if terms and pair_terms:
        said.append(
            f"{terms} pair terms are extra e-nodes: every choice keeps its cost, "
            "but a solution may also have several e-nodes of one class, which is no choice"
        )
    elif terms:
        said.append(f"{terms} pair terms are left out: costs differ by them")
    if gone:
        said.append(f"{gone} e-nodes that may not be chosen are left out")
    return "; ".join(said) or "nothing is left out"


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
    Path(path).write_bytes(pack_json(data) if packed else json.dumps(data, allow_nan=False).encode())
