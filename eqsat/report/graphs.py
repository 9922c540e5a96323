"""Draws a graph before and after, with marks on what is gone and new, also for Model Explorer.

A node is recognized by its operator, attributes, constants, and the types that it reads and returns.
Nodes that one graph has more often than the other are marked: "gone" before and "new" after.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.ground import drawing
from eqsat.ground.drawing import Box, Edge, Look, Text
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const

#: Operators that only move, merge, split or rescale data. They are coloured, all others grey.
MOVING = (
    *(name for name, op in OPS.items() if op.copies and op.kind in ("move", "axial", "concat")),
    "rescale",
)
#: Shares of a graph's cycles at which an operator gets the next stronger colour.
_HEAT = (0.0, 0.02, 0.08)
#: Most characters of a label.
_ROOM = 20


def marks(before: TensorGraph, after: TensorGraph) -> tuple[set[int], set[int]]:
    """Returns (nodes of `before` that are gone, nodes of `after` that are new); of equal nodes the last ones."""
    a, b = _by_signature(before), _by_signature(after)
    return (
        {n for s, nodes in a.items() for n in nodes[len(b.get(s, ())) :]},
        {n for s, nodes in b.items() for n in nodes[len(a.get(s, ())) :]},
    )


def list_shown(graph: TensorGraph) -> list[int]:
    """Returns the nodes in a picture: those that outputs need, without constants."""
    return [n for n in graph.live() if graph.nodes[n].op != "const"]


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """Facts of an operator besides the graph.

    cycles: Vela's; None if it is free or runs as part of another operator. share: of all cycles.
    modules, origins: the PyTorch modules and nodes that it stands for.
    """

    cycles: int | None = None
    share: float = 0.0
    name: str = ""
    modules: Sequence[str] = ()
    origins: Sequence[str] = ()


def svg(graph: TensorGraph, marked: set[int], word: str, known: Mapping[int, NodeFacts] | None = None) -> str:
    """Returns the picture as an `<svg>` element."""
    return drawing.svg(picture(graph, marked, word, known or {}, Look()), kind="graph")


def picture(
    graph: TensorGraph, marked: set[int], word: str, known: Mapping[int, NodeFacts], look: Look
) -> drawing.Picture:
    """Returns the picture of a graph; word: class of marked nodes, "gone" or "new"; known: facts by node."""
    boxes = {n: _box(graph, n, word if n in marked else "", known.get(n, NodeFacts())) for n in list_shown(graph)}
    edges = [Edge(m, n) for n in boxes for m in graph.nodes[n].inputs if m in boxes]
    return drawing.draw(boxes, edges, look)


def _box(graph: TensorGraph, n: int, word: str, facts: NodeFacts) -> Box:
    """Returns a node: its operator, shape, dtype and cycles, coloured by its operator, `word` and share of cycles."""
    node = graph.nodes[n]
    lines, kinds = [Text(_label(graph, n)), Text(_shape(node), "shape")], [word]
    if facts.cycles:
        lines.append(Text(f"{facts.cycles:,}", "cost"))
        kinds.append(f"heat{sum(facts.share >= level for level in _HEAT)}")
    attrs = (f"{k}: {str(v)[:120]}" for k, v in node.attrs if not isinstance(v, Const))
    note = [facts.name, *facts.origins, f"{node.op} → {_shape(node)}", *attrs]
    data = {"modules": "\n".join(facts.modules)} if facts.modules else {}
    kind = node.op if node.op == "input" or node.op in MOVING else "other"
    return Box(lines, " ".join(filter(None, [kind, *kinds])), "\n".join(filter(None, note)), data)


def model_explorer(label: str, pairs: Mapping[str, tuple[TensorGraph, set[int], str]]) -> dict[str, Any]:
    """Returns a graph collection for Model Explorer, with the fields of its `Graph` and `GraphNode` (graph_builder).

    pairs: (graph, marked nodes, their word) by the name of the graph.
    """
    colours = {"gone": "#f9c9c0", "new": "#c8e6c9"}
    graphs = []
    for name, (graph, marked, word) in pairs.items():
        keep = set(list_shown(graph))
        nodes: list[dict[str, Any]] = []
        for n in list_shown(graph):
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


#: The colours from no cycles to the most of a graph.
_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e8705a"}]


def node_data(costs: Mapping[str, Mapping[int, NodeFacts]]) -> dict[str, Any]:
    """Returns the cycles of operators as node data for Model Explorer: `GraphNodeData` of its node_data_builder.

    costs: facts by node, by the name of a graph of `model_explorer`.
    """
    return {
        name: {"results": {str(n): {"value": f.cycles} for n, f in facts.items() if f.cycles}, "gradient": _GRADIENT}
        for name, facts in costs.items()
    }


def _edges(sources: Iterable[int | None]) -> list[dict[str, str]]:
    return [
        {"sourceNodeId": str(m), "sourceNodeOutputId": "0", "targetNodeInputId": str(i)}
        for i, m in enumerate(sources)
        if m is not None
    ]


def _by_signature(graph: TensorGraph) -> dict[tuple[Any, ...], list[int]]:
    out: dict[tuple[Any, ...], list[int]] = {}
    for n in list_shown(graph):
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


def _shape(node: Node) -> str:
    return f"{'×'.join(map(str, node.shape)) or 'scalar'} {node.dtype.lower()}"
