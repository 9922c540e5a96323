"""Graphs without the values of their constants, which are known by their digests: enough to draw and to compare them,
and small."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.runs.codec import const, plain, value
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.types import Const


def outline(graph: TensorGraph) -> dict[str, Any]:
    """The graph as JSON holds it."""
    return {
        "nodes": [
            [n.op, list(n.inputs), [[name, plain(v, _passed_over)] for name, v in n.attrs], list(n.shape), n.dtype]
            for n in graph.nodes
        ],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "output_names": graph.output_names,
    }


def drawn(data: dict[str, Any]) -> TensorGraph:
    """The graph of an outline; its constants have their digests and no elements. Raises KeyError, TypeError,
    ValueError."""
    nodes = [
        Node(op, tuple(inputs), tuple((name, value(v, _empty)) for name, v in attrs), tuple(shape), dtype)
        for op, inputs, attrs, shape, dtype in data["nodes"]
    ]
    return TensorGraph(nodes, data["inputs"], data["outputs"], data["output_names"])


def _passed_over(c: Const) -> None:
    pass


def _empty(digest: str) -> Const:
    return const(digest, np.empty(0, np.uint8))
