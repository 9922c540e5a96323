"""What a quantized graph means in real numbers: the same operators without rounding.

A RESCALE multiplies, and neither rounds nor saturates: a float model has no such limits. Where its zero point lies at an end of
its dtype it does saturate, because producers fold a ReLU into it that way. A TABLE is read between its entries. The results are
clipped to the dtypes of the outputs, so that both sides of a comparison can hold the same values.

The semantics follow `eqsat/tensor/numerics.py`; values are float64 and conditions are booleans.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import GraphError, Type

A = Mapping[str, Any]
X = Sequence[np.ndarray]

#: Ops whose integer semantics hold for real numbers as they are.
_SAME = frozenset(
    {
        "transpose",
        "reshape",
        "identity",
        "select",
        "concat",
        "slice",
        "pad",
        "tile",
        "reverse",
        "maximum",
        "minimum",
        "equal",
        "greater",
        "greater_equal",
        "logical_and",
        "logical_or",
        "logical_xor",
        "logical_not",
        "argmax",
        "reduce_max",
        "reduce_min",
        "reduce_any",
        "reduce_all",
    }
)


def _rescale(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    if a["input_unsigned"] or a["output_unsigned"]:
        raise GraphError("a RESCALE of unsigned values has no interpretation in real numbers here")
    scale = np.array(a["multiplier"], float) * 2.0 ** -np.array(a["shift"], float)
    out = (x[0] - a["in_zp"][0]) * scale + a["out_zp"][0]
    return np.clip(out, *DType.of(t.dtype).limits) if a["out_zp"][0] in DType.of(t.dtype).limits else out


def _table(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    entries = np.array(a["table"], float)
    low, high = DType.of(xs[0].dtype).limits
    if len(entries) == high - low + 1:
        return np.interp(x[0], np.arange(low, high + 1), entries)
    step = (high - low + 1) // (
        len(entries) - 1
    )  # values from one entry to the next, and by which the result is larger
    return np.interp((x[0] - low) / step, np.arange(len(entries)), entries) * step


def _clamp(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    return np.clip(x[0], *(float(DType.of(t.dtype).from_bytes(a[k])) for k in ("min_val", "max_val")))


def _windows(x: np.ndarray, a: A, kernel: Sequence[int], t: Type, fill: float = 0.0) -> np.ndarray:
    """[n, h, w, c, kernel height, kernel width] of an NHWC tensor."""
    top, bottom, left, right = a["pad"]
    (sy, sx), (dy, dx) = a["stride"], a.get("dilation", (1, 1))
    padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
    seen = np.lib.stride_tricks.sliding_window_view(
        padded, ((kernel[0] - 1) * dy + 1, (kernel[1] - 1) * dx + 1), (1, 2)
    )
    return seen[:, ::sy, ::sx, :, ::dy, ::dx]


def _conv2d(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    w = x[1] - a["w_zp"][0]
    return np.tensordot(_windows(x[0] - a["in_zp"][0], a, w.shape[1:3], t), w, ([3, 4, 5], [3, 1, 2])) + x[2]


def _depthwise_conv2d(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    w = x[1] - a["w_zp"][0]
    return np.einsum("nhwcij,ijcm->nhwcm", _windows(x[0] - a["in_zp"][0], a, w.shape[:2], t), w).reshape(t.shape) + x[2]


def _transpose_conv2d(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    """A convolution with the turned kernel over the input with zeros between its elements."""
    data, w = x[0] - a["in_zp"][0], x[1] - a["w_zp"][0]
    (n, h, wide, c), (_, kh, kw, _), (sy, sx), pads = data.shape, w.shape, a["stride"], a["out_pad"]
    spread = np.zeros((n, (h - 1) * sy + 1, (wide - 1) * sx + 1, c))
    spread[:, ::sy, ::sx] = data
    full = {"pad": (kh - 1, kh - 1, kw - 1, kw - 1), "stride": (1, 1)}
    out = np.tensordot(_windows(spread, full, (kh, kw), t), w[:, ::-1, ::-1], ([3, 4, 5], [3, 1, 2]))
    out = np.pad(out, ((0, 0), *(tuple(max(p, 0) for p in pads[i : i + 2]) for i in (0, 2)), (0, 0)))
    top, left = max(-pads[0], 0), max(-pads[2], 0)
    return out[:, top : top + t.shape[1], left : left + t.shape[2]] + x[2]


def _max_pool2d(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    return _windows(x[0], a, a["kernel"], t, -np.inf).max((4, 5))


def _avg_pool2d(a: A, x: X, xs: Sequence[Type], t: Type) -> np.ndarray:
    total, count = (_windows(v, a, a["kernel"], t).sum((4, 5)) for v in (x[0] - a["in_zp"][0], np.ones(x[0].shape)))
    return total / count + a["out_zp"][0]


_REAL: dict[str, Callable[[A, X, Sequence[Type], Type], np.ndarray]] = {
    "rescale": _rescale,
    "table": _table,
    "clamp": _clamp,
    "conv2d": _conv2d,
    "depthwise_conv2d": _depthwise_conv2d,
    "transpose_conv2d": _transpose_conv2d,
    "max_pool2d": _max_pool2d,
    "avg_pool2d": _avg_pool2d,
    "matmul": lambda a, x, xs, t: (x[0] - a["in_zp"][0]) @ (x[1] - a["w_zp"][0]),
    "add": lambda a, x, xs, t: x[0] + x[1],
    "sub": lambda a, x, xs, t: x[0] - x[1],
    "mul": lambda a, x, xs, t: x[0] * x[1] * 2.0 ** -a["shift"][0],
    "abs": lambda a, x, xs, t: np.abs(x[0]),
    "negate": lambda a, x, xs, t: a["out_zp"][0] - (x[0] - a["in_zp"][0]),
    "cast": lambda a, x, xs, t: x[0] != 0 if t.dtype == "BOOL" else x[0],
    "reduce_sum": lambda a, x, xs, t: x[0].sum(a["axis"], keepdims=True),
    "arithmetic_right_shift": lambda a, x, xs, t: x[0] * 2.0 ** -x[1],
    "logical_left_shift": lambda a, x, xs, t: x[0] * 2.0 ** x[1],
}


def evaluate(graph: TensorGraph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Outputs of `graph` in real numbers. Raises GraphError for ops that mean nothing there: bits, and what is not modelled."""
    values: dict[int, np.ndarray] = {}
    given = dict(zip(graph.inputs, inputs, strict=True))
    for n in graph.live():
        node = graph.nodes[n]
        if node.op in ("input", "const"):
            data = given[n] if node.op == "input" else node.attr("value").data
            values[n] = data if node.dtype == "BOOL" else data.astype(float)
            continue
        x, a, t = [values[i] for i in node.inputs], dict(node.attrs), graph.type(n)
        if node.op in _SAME:
            values[n] = OPS[node.op].evaluate(a, x, t)
        elif node.op in _REAL:
            values[n] = _REAL[node.op](a, x, [graph.type(i) for i in node.inputs], t)
        else:
            raise GraphError(f"{node.op} has no interpretation in real numbers")
    return [
        np.clip(values[o], *d.limits)
        if (d := DType.of(graph.nodes[o].dtype)).is_integral and d.kind != "boolean"
        else values[o]
        for o in graph.outputs
    ]
