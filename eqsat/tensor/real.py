"""Evaluates a quantized graph in real numbers, without rounding.

A RESCALE multiplies, and neither rounds nor saturates: a float model has no such limits.
It does saturate if its zero point is an end of its dtype: producers fold a ReLU in that way.
A TABLE is interpolated between its entries.
The results are clipped to the dtypes of the outputs.
So both sides of a comparison can have the same values.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import evaluate_real
from eqsat.tensor.types import Array


def evaluate(graph: TensorGraph, inputs: Sequence[Array]) -> list[Array]:
    """Returns the outputs of `graph` in real numbers: float64, and booleans for conditions.

    Raises GraphError for operators without a meaning in real numbers.
    """
    values: dict[int, Array] = {}
    given = dict(zip(graph.inputs, inputs, strict=True))
    for n in graph.live():
        node = graph.nodes[n]
        if node.op in ("input", "const"):
            data = given[n] if node.op == "input" else node.attr("value").data
            values[n] = data if node.dtype == "BOOL" else data.astype(float)
        else:
            values[n] = evaluate_real(node.op, node.attrs, [values[i] for i in node.inputs], graph.type(n))
    dtypes = [DType.of(graph.nodes[o].dtype) for o in graph.outputs]
    return [
        np.clip(values[o], *d.limits) if d.is_integral and d.kind != "boolean" else values[o]
        for o, d in zip(graph.outputs, dtypes, strict=True)
    ]
