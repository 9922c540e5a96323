"""Small valid TOSA files with every operator that the op table has, and some that it has not."""

from __future__ import annotations

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type, attrs_of
from tests.graphs import opaque
from tests.random_graphs import RULE, random_graph

_RANDOM_GRAPHS = 12


def finish(g: TensorGraph, *outputs: int) -> TensorGraph:
    g.outputs = list(outputs)
    g.output_names = [f"y{i}" for i in range(len(outputs))]
    return g


def rescale(g: TensorGraph, x: int, dtype: str, multiplier: int = 1 << 30, shift: int = 30) -> int:
    return g.add_with("rescale", (x,), makers.rescale(dtype, multiplier, shift))


def pointwise() -> TensorGraph:
    """Every unary and binary op, over INT32 and BOOL."""
    g = TensorGraph()
    a, b = (g.add_input(n, (1, 2, 3), "INT32") for n in "ab")
    p, q = (g.add_input(n, (1, 2, 1), "BOOL") for n in "pq")
    c = g.add_const(np.arange(3).reshape(1, 1, 3), "INT32")
    outs = [g.add(op, (a,)) for op in ("abs", "bitwise_not", "clz", "identity")] + [g.add("logical_not", (p,))]
    outs += [
        g.add(op, (a, c))
        for op in (
            "add",
            "sub",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "logical_left_shift",
            "logical_right_shift",
            "intdiv",
        )
    ]
    outs += [g.add_with(op, (a, b), makers.extremum()) for op in ("maximum", "minimum")]
    outs += [g.add(op, (p, q)) for op in ("logical_and", "logical_or", "logical_xor")]
    outs += [g.add(op, (a, b)) for op in ("equal", "greater", "greater_equal")]
    outs += [
        g.add("arithmetic_right_shift", (a, b), round=True),
        g.add("mul", (a, b), shift=(1,)),
        g.add("negate", (a,), in_zp=(0,), out_zp=(0,)),
        g.add("select", (p, a, c)),
        g.add("cast", (a,), dtype="INT8"),
    ]
    return finish(g, *outs)


def along_axes() -> TensorGraph:
    """Ops that act along axes, and tables."""
    g = TensorGraph()
    x, w, p = (
        g.add_input("x", (1, 4, 6), "INT8"),
        g.add_input("w", (1, 4, 6), "INT16"),
        g.add_input("p", (2, 3), "BOOL"),
    )
    outs = [g.add_with(op, (x,), makers.extremum(1)) for op in ("reduce_max", "reduce_min", "argmax")]
    outs += [g.add(op, (rescale(g, x, "INT32"),), axis=2) for op in ("reduce_sum", "reduce_product")]
    outs += [g.add(op, (p,), axis=0) for op in ("reduce_any", "reduce_all")]
    outs += [
        g.add("slice", (x,), start=(0, 1, 2), size=(1, 2, 3)),
        g.add("pad", (x,), pads=(0, 0, 1, 0, 0, 2), value=(3,)),
        g.add("tile", (x,), multiples=(2, 1, 3)),
        g.add("reverse", (x,), axis=2),
        g.add("concat", (x, x), axis=1),
        g.add("transpose", (x,), perms=(2, 0, 1)),
        g.add("reshape", (x,), shape=(2, 12)),
        g.add_with("clamp", (x,), makers.clamp("INT8", -128, 127)),
        g.add("table", (x,), table=tuple(range(-128, 128))),
        g.add("table", (w,), table=tuple(range(513))),
    ]
    return finish(g, *outs)


def products() -> TensorGraph:
    """Convolutions, matrix products and pools."""
    g = TensorGraph()
    x, m = g.add_input("x", (1, 5, 4, 3), "INT8"), g.add_input("m", (2, 3, 4), "INT8")
    rng = np.random.default_rng(0)

    def weights(*shape: int) -> int:
        return g.add_const(rng.integers(-127, 128, shape), "INT8")

    bias = g.add_const(np.arange(2), "INT32")
    outs = [
        g.add_with("conv2d", (x, weights(2, 2, 1, 3), bias), makers.conv("INT8", pad=(1, 0, 0, 0), dilation=(2, 1))),
        g.add_with(
            "depthwise_conv2d",
            (x, weights(2, 2, 3, 1), g.add_const(np.zeros(3), "INT32")),
            makers.conv("INT8"),
        ),
        g.add_with(
            "transpose_conv2d", (x, weights(2, 2, 2, 3), bias), makers.transpose_conv("INT8", out_pad=(0, 1, 0, 0))
        ),
        g.add("matmul", (m, g.add("transpose", (m,), perms=(0, 2, 1))), in_zp=(1,), w_zp=(-1,)),
    ]
    outs += [
        g.add_with("max_pool2d", (x,), makers.max_pool((2, 2), stride=(1, 2))),
        g.add_with("avg_pool2d", (x,), makers.avg_pool((2, 2), stride=(1, 2))),
    ]
    return finish(g, *outs)


def indexed() -> TensorGraph:
    """Ops that pick, place and stretch."""
    g = TensorGraph()
    x, v = g.add_input("x", (1, 4, 4, 2), "INT8"), g.add_input("v", (1, 8, 3), "INT8")
    rows = g.add_const(np.array([[3, 0]]), "INT32")
    picked = g.add("gather", (v, rows))
    return finish(
        g,
        g.add("scatter", (v, rows, picked)),
        g.add("resize", (x,), scale=(4, 2, 4, 2), offset=(0, 0), border=(0, 0), mode=2),
    )


def not_modelled() -> TensorGraph:
    """Opaque ops: shape operands, strings, several results; dtypes that numpy lacks."""
    g = TensorGraph()
    x, f, h = (
        g.add_input("x", (1, 4, 4, 2), "INT8"),
        g.add_input("f", (1, 4, 4), "FP32"),
        g.add_input("h", (2, 3), "BF16"),
    )
    fft = opaque(g, "RFFT2D", [f], [Type((1, 4, 3), "FP32")] * 2, local_bound=False)
    imaginary = g.add("item", (fft,), index=1, shape=(1, 4, 3), dtype="FP32")
    table = g.add_const(np.arange(24).reshape(1, 8, 3), "INT8")
    index = g.add_const(np.array([[3, 0]]), "INT32")
    carried = g._put(Node("cast", (h,), attrs_of({"dtype": "INT8"}), (2, 3), "INT8"))
    return finish(
        g,
        opaque(g, "RESIZE", [x], [Type((1, 7, 7, 2), "INT32")], (None, (4, 2, 4, 2), (0, 0), (0, 0)), mode=2),
        fft,
        imaginary,
        opaque(g, "GATHER", [table, index], [Type((1, 2, 3), "INT8")]),
        carried,
        x,
        x,
        opaque(
            g,
            "CUSTOM",
            [x],
            [Type((2,), "INT8"), Type((1,), "INT32")],
            operator_name=b"mine",
            domain_name=b"here",
            implementation_attrs=bytes(range(7)),
        ),
        g.add_const(np.frombuffer(bytes(12), np.uint8), "BF16", (2, 3)),
    )


def wide() -> TensorGraph:
    """INT48 sums and constants."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 2, 3), "INT16")
    w, b = g.add_const(np.arange(6).reshape(2, 1, 1, 3), "INT8"), g.add_const(np.array([-(2**47), 2**47 - 1]), "INT48")
    y = g.add_with("conv2d", (x, w, b), makers.conv("INT16"))
    return finish(
        g,
        g.add_with("rescale", (y,), makers.rescale("INT16", 16384, 46, scale32=False)),
    )


def graphs() -> list[TensorGraph]:
    """All of them, and some random networks of blocks."""
    return [
        pointwise(),
        along_axes(),
        products(),
        indexed(),
        not_modelled(),
        wide(),
        *(random_graph(s, RULE) for s in range(_RANDOM_GRAPHS)),
    ]


def uncovered() -> set[str]:
    """Ops of the table that no graph has; those of FX's level, and what is written as several, are never in a file."""
    return OPS.keys() - {n.op for g in graphs() for n in g.nodes} - {"fx", "reduce_fx", "matmul_rows"}
