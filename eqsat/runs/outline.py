"""Outlines: graphs without the values of their constants, which have their digests only.

They are small, and enough to draw and compare graphs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.runs.codec import const, plain, value
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.types import Const


def outline(graph: TensorGraph) -> dict[str, Any]:
    """Returns the graph's outline as a JSON object."""
    return {
        "nodes": [
            [
                n.op,
                list(n.inputs),
                [[name, plain(v, lambda constant: None)] for name, v in n.attrs],
                list(n.shape),
                n.dtype,
            ]
            for n in graph.nodes
        ],
        "inputs": graph.inputs,
        "outputs": graph.outputs,
        "output_names": graph.output_names,
    }


def drawn(data: dict[str, Any]) -> TensorGraph:
    """Returns the graph of an outline, whose constants have digests and no elements.

    Raises KeyError, TypeError and ValueError.
    """

    def empty(digest: str) -> Const:
        return const(digest, np.empty(0, np.uint8))

    nodes = [
        Node(op, tuple(inputs), tuple((name, value(v, empty)) for name, v in attrs), tuple(shape), dtype)
        for op, inputs, attrs, shape, dtype in data["nodes"]
    ]
    return TensorGraph(nodes, data["inputs"], data["outputs"], data["output_names"])
