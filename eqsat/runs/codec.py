"""E-graphs and choices as files: JSON with interned attributes, and constants in an .npz; outlines of graphs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from cost_models.protocol import Price
from eqsat.choice.candidates import Candidate
from eqsat.choice.choice import Choices
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.egraph.engine import Iteration, Saturation
from eqsat.ground.packed import pack_arrays, pack_json, unpack_arrays, unpack_json
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Attrs, Const, Type
from eqsat.vela.defects import Copy
from extraction import io as choice_io

EGRAPH, CONSTANTS, CHOICE_GRAPH = "egraph.json.gz", "constants.npz", "choice-graph.json.gz"


def _plain(v: Any, constants: dict[str, np.ndarray[Any, Any]]) -> Any:
    """Returns the value of an attribute as JSON; constants become digests, and are added to `constants`."""
    if isinstance(v, tuple):
        return [_plain(x, constants) for x in v]
    if isinstance(v, bytes):
        return {"bytes": v.hex()}
    if isinstance(v, Const):
        constants[v.digest] = v.data
        return {"const": v.digest}
    if isinstance(v, np.generic):
        return v.item()
    return v


def _value(v: Any, constant: Callable[[str], Const]) -> Any:
    """Returns the value that `_plain` wrote. Raises KeyError and ValueError."""
    if isinstance(v, list):
        return tuple(_value(x, constant) for x in v)
    if isinstance(v, dict):
        return bytes.fromhex(v["bytes"]) if "bytes" in v else constant(v["const"])
    return v


def write(choices: Choices) -> dict[str, bytes]:
    """Returns the files of priced choices and their e-graph, without the source graph."""
    frozen = choices.frozen
    #: Attribute lists and movements, each once, with their numbers.
    attrs: dict[Attrs, int] = {}
    moves: dict[Move, int] = {}
    constants: dict[str, np.ndarray[Any, Any]] = {}

    def enode(e: ENode) -> list[Any]:
        move = None if e.move is None else moves.setdefault(e.move, len(moves))
        return [e.op, attrs.setdefault(e.attrs, len(attrs)), list(e.children), move]

    place = {id(e): (c, i) for c, nodes in enumerate(frozen.classes) for i, e in enumerate(nodes)}
    data = {
        "classes": [[enode(e) for e in nodes] for nodes in frozen.classes],
        "types": [None if t is None else [list(t.shape), t.dtype] for t in frozen.types],
        "handle": sorted(frozen.handle.items()),
        "saturation": asdict(frozen.saturation),
        "choices": {
            "classes": list(choices.classes),
            "enodes": [place[id(c.enode)] for c in choices.candidates],
            "steps": [[[op, attrs.setdefault(a, len(attrs))] for op, a in c.steps] for c in choices.candidates],
            "cycles": [c.cycles if math.isfinite(c.cycles) else None for c in choices.candidates],
            "last": sorted(choices.last.items()),
            "shapes": sorted(choices.shapes.items()),
        },
    }
    data["attrs"] = [[[name, _plain(v, constants)] for name, v in a] for a in attrs]
    data["moves"] = [[m.in_shape, m.out_shape, m.axes] for m in moves]
    choice_graph = choice_io.to_json(choices.graph)
    return {EGRAPH: pack_json(data), CONSTANTS: pack_arrays(constants), CHOICE_GRAPH: pack_json(choice_graph)}


def read(files: dict[str, bytes], source: TensorGraph, copies: Sequence[Copy]) -> Choices:
    """Returns the choices that `write` wrote, with their e-graph. Raises KeyError, ValueError and others if damaged.

    copies: the copies that the target's defects need.
    """
    data = unpack_json(files[EGRAPH])
    attrs = _attributes(data["attrs"], files[CONSTANTS])
    frozen = _make_frozen(data, attrs, source)
    graph = choice_io.from_json(unpack_json(files[CHOICE_GRAPH]))
    chosen = data["choices"]
    candidates = _candidates(chosen, frozen, attrs)
    n_classes = len(chosen["classes"])
    fits = len(candidates) <= graph.n_nodes and n_classes <= graph.n_classes
    if not fits or len(candidates) != graph.class_start[n_classes]:
        raise ValueError("the choice graph does not belong to the e-graph")
    shapes = {n: tuple(shape) for n, shape in chosen["shapes"]}
    return Choices(graph, frozen, chosen["classes"], candidates, dict(chosen["last"]), shapes, copies)


def _attributes(rows: list[Any], stored: bytes) -> list[Attrs]:
    """Returns the attribute lists as e-nodes and steps refer to them; `stored` is the file of constants."""
    constants = {digest: _const(digest, data) for digest, data in unpack_arrays(stored).items()}
    return [tuple((name, _value(v, constants.__getitem__)) for name, v in pairs) for pairs in rows]


def _make_frozen(data: dict[str, Any], attrs: list[Attrs], source: TensorGraph) -> Frozen:
    moves = [Move(tuple(i), tuple(o), tuple(map(tuple, axes))) for i, o, axes in data["moves"]]
    classes = [
        [ENode(op, attrs[a], tuple(children), c, None if m is None else moves[m]) for op, a, children, m in nodes]
        for c, nodes in enumerate(data["classes"])
    ]
    s = data["saturation"]
    saturation = Saturation(s["stop"], [Iteration(**i) for i in s["iterations"]], s["seconds"])
    types = [None if t is None else Type(tuple(t[0]), t[1]) for t in data["types"]]
    return Frozen(classes, types, {n: c for n, c in data["handle"]}, saturation, source)


def _candidates(chosen: dict[str, Any], frozen: Frozen, attrs: list[Attrs]) -> list[Candidate]:
    """Returns the candidates. Raises ValueError if the lists differ in length."""
    enodes = [frozen.classes[c][i] for c, i in chosen["enodes"]]
    cycles = [math.inf if c is None else c for c in chosen["cycles"]]
    steps = [tuple((op, attrs[a]) for op, a in steps) for steps in chosen["steps"]]
    position = {c: i for i, c in enumerate(chosen["classes"])}
    return [
        Candidate(e, position[e.cls], tuple(position[c] for c in e.children), Price(cycles, steps))
        for e, cycles, steps in zip(enodes, cycles, steps, strict=True)
    ]


def _const(digest: str, data: np.ndarray[Any, Any]) -> Const:
    """Returns a constant with the digest that it was saved with, which depends on the dtype of its class."""
    c = Const.__new__(Const)
    data.setflags(write=False)
    c.data, c.digest = data, digest
    return c


def outline(graph: TensorGraph) -> dict[str, Any]:
    """Returns a graph as a JSON object with digests of its constants: enough to draw and compare graphs."""
    return {
        "nodes": [
            [n.op, list(n.inputs), [[name, _plain(v, {})] for name, v in n.attrs], list(n.shape), n.dtype]
            for n in graph.nodes
        ],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "output_names": graph.output_names,
    }


def load_outline(data: dict[str, Any]) -> TensorGraph:
    """Returns the graph of an outline; constants have no elements. Raises KeyError, TypeError and ValueError."""

    def empty(digest: str) -> Const:
        return _const(digest, np.empty(0, np.uint8))

    nodes = [
        Node(op, tuple(inputs), tuple((name, _value(v, empty)) for name, v in attrs), tuple(shape), dtype)
        for op, inputs, attrs, shape, dtype in data["nodes"]
    ]
    return TensorGraph(nodes, data["inputs"], data["outputs"], data["output_names"])
