"""A graph before and after: what is gone, what is new, drawn top to bottom; and the same for the Model Explorer tool.

A node is told by what it computes locally: operator, attributes, constants, types of what it reads and gives. What the one graph has
more often than the other is marked, "gone" before and "new" after.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const

#: Operators that only move, merge, split or rescale data: drawn in colour, all others grey.
MOVING = (
    *(name for name, op in OPS.items() if op.copies and op.kind in ("move", "axial", "concat")),
    "rescale",
)
#: Characters that a label has room for.
_ROOM = 20
_WIDTH, _HEIGHT, _GAP_X, _GAP_Y, _SWEEPS = 132, 30, 12, 22, 4


def marks(before: TensorGraph, after: TensorGraph) -> tuple[set[int], set[int]]:
    """(nodes of `before` that are gone, nodes of `after` that are new); of several alike the last ones."""
    a, b = _by_signature(before), _by_signature(after)
    return (
        {n for s, nodes in a.items() for n in nodes[len(b.get(s, ())) :]},
        {n for s, nodes in b.items() for n in nodes[len(a.get(s, ())) :]},
    )


def shown(graph: TensorGraph) -> list[int]:
    """Nodes that a picture has: those that outputs need, without constants."""
    return [n for n in graph.live() if graph.nodes[n].op != "const"]


def counts(graph: TensorGraph, marked: set[int]) -> dict[str, tuple[int, int]]:
    """Operator -> (how many, how many of them marked)."""
    every = Counter(graph.nodes[n].op for n in shown(graph) if graph.nodes[n].op != "input")
    some = Counter(graph.nodes[n].op for n in marked)
    return {op: (k, some[op]) for op, k in every.items()}


def svg(graph: TensorGraph, marked: set[int], word: str) -> str:
    """The picture as an `<svg>` element; `word` is the class of marked nodes ("gone" or "new")."""
    nodes = shown(graph)
    place = _layout(graph, nodes)
    width = max(x for x, _ in place.values()) + _WIDTH + _GAP_X
    height = max(y for _, y in place.values()) + _HEIGHT + _GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
    ]
    for n in nodes:
        x, y = place[n]
        for m in graph.nodes[n].inputs:
            if m in place:
                u, v = place[m]
                sx, sy, ex, half = u + _WIDTH / 2, v + _HEIGHT, x + _WIDTH / 2, (y - v - _HEIGHT) / 2
                parts.append(
                    f'<path d="M{sx:.0f} {sy:.0f}C{sx:.0f} {sy + half:.0f} {ex:.0f} {y - half:.0f} {ex:.0f} {y:.0f}"/>'
                )
    for n in nodes:
        x, y = place[n]
        node = graph.nodes[n]
        kind = "input" if node.op == "input" else node.op if node.op in MOVING else "other"
        parts.append(
            f'<g class="{kind}{" " + word if n in marked else ""}"><title>{escape(_details(graph, n))}</title>'
            f'<rect x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
            f'<text x="{x + _WIDTH / 2:.0f}" y="{y + 13:.0f}">{escape(_label(graph, n))}</text>'
            f'<text class="shape" x="{x + _WIDTH / 2:.0f}" y="{y + 25:.0f}">{escape(_shape(node))}</text></g>'
        )
    return "".join(parts) + "</svg>"


def model_explorer(label: str, pairs: Mapping[str, tuple[TensorGraph, set[int], str]]) -> dict[str, Any]:
    """A graph collection for Model Explorer (its "JSON" files; the fields are those of `Graph` and `GraphNode` in its Python package's
    graph_builder): a graph per entry of `pairs`, named by the key, with (graph, marked nodes, word for them)."""
    colours = {"gone": "#f9c9c0", "new": "#c8e6c9"}
    graphs = []
    for name, (graph, marked, word) in pairs.items():
        keep = set(shown(graph))
        nodes: list[dict[str, Any]] = []
        for n in shown(graph):
            node = graph.nodes[n]
            made: dict[str, Any] = {
                "id": str(n),
                "label": _label(graph, n),
                "namespace": "",
                "attrs": [{"key": k, "value": str(v)[:200]} for k, v in node.attrs if not isinstance(v, Const)],
                "incomingEdges": _edges(m if m in keep else None for m in node.inputs),
                "outputsMetadata": [{"id": "0", "attrs": [{"key": "tensor_shape", "value": _shape(node)}]}],
            }
            if n in marked:
                made["attrs"].append({"key": "eqsat", "value": word})
                made["style"] = {"backgroundColor": colours[word]}
            nodes.append(made)
        nodes.append(
            {"id": "outputs", "label": "outputs", "namespace": "", "attrs": [], "incomingEdges": _edges(graph.outputs)}
        )
        graphs.append({"id": name, "nodes": nodes})
    return {"label": label, "graphs": graphs}


def _edges(sources: Iterable[int | None]) -> list[dict[str, str]]:
    return [
        {"sourceNodeId": str(m), "sourceNodeOutputId": "0", "targetNodeInputId": str(i)}
        for i, m in enumerate(sources)
        if m is not None
    ]


def _by_signature(graph: TensorGraph) -> dict[tuple, list[int]]:
    out: dict[tuple, list[int]] = {}
    for n in shown(graph):
        node = graph.nodes[n]
        if node.op != "input":
            reads = tuple(
                dict(graph.nodes[m].attrs)["value"].digest if graph.nodes[m].op == "const" else graph.type(m)
                for m in node.inputs
            )
            out.setdefault((node.op, node.attrs, reads, node.shape, node.dtype), []).append(n)
    return out


def _label(graph: TensorGraph, n: int) -> str:
    node = graph.nodes[n]
    text = OPS[node.op].text(node.attrs)
    return text if len(text) <= _ROOM else node.op


def _shape(node) -> str:
    return f"{'×'.join(map(str, node.shape)) or 'scalar'} {node.dtype.lower()}"


def _details(graph: TensorGraph, n: int) -> str:
    attrs = "\n".join(f"{k}: {str(v)[:120]}" for k, v in graph.nodes[n].attrs if not isinstance(v, Const))
    return f"{graph.nodes[n].op} → {_shape(graph.nodes[n])}\n{attrs}"


def _layout(graph: TensorGraph, nodes: list[int]) -> dict[int, tuple[float, float]]:
    """Left upper corners: a row by the longest path from the inputs, in a row by the mean place of the neighbours (Sugiyama's heuristic)."""
    keep = set(nodes)
    above = {n: [m for m in graph.nodes[n].inputs if m in keep] for n in nodes}
    below: dict[int, list[int]] = {n: [] for n in nodes}
    row: dict[int, int] = {}
    for n in nodes:
        row[n] = 1 + max((row[m] for m in above[n]), default=-1)
        for m in above[n]:
            below[m].append(n)
    for n in reversed(nodes):  # inputs and what hangs on them alone go down to their readers
        if not above[n] and below[n]:
            row[n] = min(row[m] for m in below[n]) - 1
    rows: list[list[int]] = [[] for _ in range(1 + max(row.values()))]
    for n in nodes:
        rows[row[n]].append(n)
    at = {n: float(i) for r in rows for i, n in enumerate(r)}
    for sweep in range(_SWEEPS):
        near = above if sweep % 2 == 0 else below
        for r in rows if sweep % 2 == 0 else reversed(rows):
            r.sort(key=lambda n: sum(at[m] for m in near[n]) / len(near[n]) if near[n] else at[n])
            for i, n in enumerate(r):
                at[n] = i - (len(r) - 1) / 2
    left = min(at.values())
    return {n: (_GAP_X + (at[n] - left) * (_WIDTH + _GAP_X), _GAP_Y / 2 + row[n] * (_HEIGHT + _GAP_Y)) for n in nodes}
