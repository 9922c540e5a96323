"""The op table answers every question about every operator, and its integers are those of the TOSA reference model, to
the bit, in all shapes; test_semantics.py has all attributes."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest

from eqsat.checking.random_graphs import random_graph as small_graph
from eqsat.egraph.attributes import constructor
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor import makers, schema
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.op import NotModelled, Op, OpKind, define
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Array, GraphError, Type
from eqsat.tosa import dumps
from tests.forms import OPEN, by_operator
from tests.random_graphs import random_graph
from tests.random_graphs.builder import Builder
from tests.reference import run_reference
from tests.term import Term, finish, outputs


class Draw(Builder):
    """Builds one graph of one operator: draws attributes and values, with extremes and zeros strewn in."""

    def array(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> Array:
        x = super().array(shape, dtype, low, high)
        lo, hi = DType.of(dtype).limits
        lo, hi = (lo if low is None else low), (hi if high is None else high)
        extreme = self.rng.choice([lo, hi, max(lo, min(hi, 0)), max(lo, min(hi, -1))], shape)
        return np.where(self.rng.random(shape) < 0.4, extreme, x).astype(x.dtype)


EVALUATED = {op for op, spec in OPS.items() if spec.tosa and not isinstance(spec.integer, NotModelled)}


def check(graph: TensorGraph, values: list[np.ndarray], worker: Worker) -> None:
    want = run_reference(dumps(graph), values, worker, timeout=20)
    for got, ref, t in zip(graph.evaluate(values), want, graph.signature()[1], strict=True):
        assert got.dtype == DType.of(t.dtype).storage and got.shape == t.shape
        np.testing.assert_array_equal(got, ref)


@pytest.mark.parametrize("op", ["resize", "conv2d", "depthwise_conv2d", "transpose_conv2d", "max_pool2d", "avg_pool2d"])
def test_windows_and_grids_equal_the_reference_model(op: str, worker: Worker) -> None:
    for seed in range(20):
        d = Draw(np.random.default_rng([zlib.crc32(op.encode()), seed]), largest=1 << 20)
        y = CASES[op](d, op)
        if y.dtype == "INT48":  # which the reference model does not show: as INT32, times one
            y = y.rescale("INT32", 4, 2, scale32=False)
        g = outputs(y)
        check(g, [d.array(t.shape, t.dtype) for t in g.signature()[0]], worker)


def test_every_value_of_random_graphs_equals_the_reference_model(worker: Worker) -> None:
    """But sums of INT48, which it does not show: of all operators, in many shapes, broadcast, and behind others."""
    seen = set[str]()
    for seed, drawn in itertools.product(range(150), (small_graph, random_graph)):
        g = drawn(seed)
        seen |= g.op_counts().keys()
        shown = [n for n in g.live() if g.nodes[n].dtype != "INT48" and g.nodes[n].op not in ("input", "const")]
        check(finish(g, *shown), samples(domains(g), 3)[2], worker)
    assert seen >= EVALUATED and by_operator().keys() >= EVALUATED


@pytest.mark.parametrize("op", sorted(op for op in EVALUATED if OPS[op].kind == "pointwise"))
def test_tensors_without_axes_equal_the_reference_model(op: str, pool: Pool) -> None:
    """TOSA allows them where no attribute names an axis."""
    form = next(f for f in by_operator()[op] if not f.after)
    scalar = replace(form, types=tuple(Type((), t.dtype) for t in form.types))
    found = scalar.answers(pool)
    for ours, theirs in zip(scalar.values, found, strict=True):
        assert (ours is OPEN) == (theirs is OPEN)
        if ours is not OPEN:
            np.testing.assert_array_equal(ours, theirs, strict=True)
    assert any(theirs is not OPEN for theirs in found)


# ---- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("op", OPS.values(), ids=OPS)
def test_every_op_answers_every_question(op: Op) -> None:
    """What is not in the record's signature: TOSA's schema, the e-graph and the text know every operator."""
    assert OPS[op.name] is op and op.operands >= -1
    assert op.kind in get_args(OpKind)
    for semantics in (op.integer,):
        assert callable(semantics) or semantics.why
    if op.tosa:
        assert op.name.upper() in schema.OP_NAME.values()
        known = {
            *schema.fields(schema.union_for(op.name.upper())),
            *(a for a, _ in op.folded),
            *(["dtype"] if op.declared else []),
        }
        assert callable(op.shown) or set(op.shown) <= known
    assert constructor(op.name, max(op.operands, 1))
    if op.roles:
        assert op.roles.split("->")[0].count(",") + 1 == op.operands and op.roles.count("->") == 1


@pytest.mark.parametrize("missing", ["infer", "integer", "shown", "tosa", "kind", "operands"])
def test_a_missing_answer_is_an_error_when_the_op_is_defined(missing: str) -> None:
    answers = {f.name: getattr(OPS["abs"], f.name) for f in fields(Op)}
    del answers[missing]
    with pytest.raises(TypeError, match=missing):
        Op(**answers)


def test_an_axial_op_says_along_which_axes() -> None:
    with pytest.raises(TypeError, match="along"):
        replace(OPS["abs"], kind="axial")
    with pytest.raises(TypeError, match="roles"):
        replace(OPS["abs"], kind="indexed")


def test_an_op_is_defined_once() -> None:
    with pytest.raises(ValueError, match="two operators abs"):
        define(OPS["abs"])


@pytest.mark.parametrize(
    ("op", "values"),
    [
        ("gather", [np.zeros((1, 3, 2), np.int8), np.full((1, 4), 3, np.int32)]),
        ("gather", [np.zeros((1, 3, 2), np.int8), np.full((1, 4), -1, np.int32)]),
        ("scatter", [np.zeros((1, 3, 2), np.int8), np.zeros((1, 2), np.int32), np.ones((1, 2, 2), np.int8)]),
    ],
)
def test_what_tosa_leaves_open_is_not_evaluated(op: str, values: list[np.ndarray]) -> None:
    """Positions outside, and positions written twice."""
    types = [Type(x.shape, "INT32" if x.dtype == np.int32 else "INT8") for x in values]
    with pytest.raises(GraphError, match="position"):
        evaluate_op(op, (), values, infer(op, (), types))


# ---- windows ------------------------------------------------------------------------------------


def _scale(d: Draw, size: int) -> tuple[tuple[int, int], int, int]:
    """(scale, offset, border) that give a whole number of elements, up or down."""
    numerator, denominator = d.between(1, 6), d.between(1, 6)
    denominator = min(denominator, 16 * numerator - 1)
    offset = d.between(-numerator, min(16 * numerator - 1, (size - 1) * numerator))
    steps = max(0, (size - 1) * numerator - offset + d.between(-numerator, numerator))
    border = steps // denominator * denominator - (size - 1) * numerator + offset
    if not -16 * numerator <= border < numerator:
        return (numerator, denominator), 0, -((size - 1) * numerator % denominator)
    return (numerator, denominator), offset, border


def _resize(d: Draw, op: str) -> Term:
    n, h, w, c = (d.between(1, 5) for _ in range(4))
    (sy, oy, by), (sx, ox, bx) = _scale(d, h), _scale(d, w)
    mode = d.of(NEAREST, BILINEAR)
    return d.input((n, h, w, c), d.of("INT8", "INT16"))(
        op, scale=(*sy, *sx), offset=(oy, ox), border=(by, bx), mode=mode
    )


def _fit(d: Draw, kernel: int, stride: int, dilation: int = 1, most: int | None = None) -> tuple[int, int, int]:
    """(size, pad before, pad after), these at most so large, for which the strides come out even."""
    before, after = (d.between(0, kernel if most is None else most) for _ in range(2))
    size = d.between(0, 3) * stride + (kernel - 1) * dilation + 1 - before - after
    return size if size >= 1 else size + (stride - size) // stride * stride, before, after


def _operands(d: Draw) -> tuple[str, dict[str, int]]:
    """The dtype, and zero points, of a convolution."""
    dtype = d.of("INT8", "INT16")
    return dtype, {"in_zp": d.zero(dtype), "w_zp": d.between(-128, 127) if dtype == "INT8" else 0}


def _bias(d: Draw, dtype: str, channels: int) -> Term:
    return d.const((d.of(1, channels),), DType.of(dtype).accumulator, -(1 << 30), 1 << 30)


def _conv(d: Draw, op: str) -> Term:
    dtype, zps = _operands(d)
    kernel, stride, dilation = ((d.between(1, 3), d.between(1, 3)) for _ in range(3))
    (h, top, bottom), (w, left, right) = (_fit(d, *ksd) for ksd in zip(kernel, stride, dilation, strict=True))
    n, c, m = d.between(1, 2), d.between(1, 4), d.between(1, 3)
    weights, out = ((m, *kernel, c), m) if op == "conv2d" else ((*kernel, c, m), c * m)
    x = d.input((n, h, w, c), dtype)
    attrs = makers.conv(dtype, pad=(top, bottom, left, right), stride=stride, dilation=dilation, **zps)
    return x.made(op, attrs, d.const(weights), _bias(d, dtype, out))


def _transpose_conv(d: Draw, op: str) -> Term:
    dtype, zps = _operands(d)
    kernel, stride = ((d.between(1, 3), d.between(1, 3)) for _ in range(2))
    n, h, w, c, m = d.between(1, 2), d.between(1, 3), d.between(1, 3), d.between(1, 4), d.between(1, 3)
    pads = []
    for size, k, s in ((h, kernel[0], stride[0]), (w, kernel[1], stride[1])):
        before, after = d.between(1 - k, 2), d.between(1 - k, 2)
        pads += [before, max(after, 1 - (size - 1) * s - before - k)]
    attrs = makers.transpose_conv(dtype, out_pad=pads, stride=stride, **zps)
    return d.input((n, h, w, c), dtype).made(op, attrs, d.const((m, *kernel, c)), _bias(d, dtype, m))


def _pool(d: Draw, op: str) -> Term:
    dtype = d.of("INT8", "INT16")
    kernel, stride = ((d.between(1, 4), d.between(1, 3)) for _ in range(2))
    (h, top, bottom), (w, left, right) = (_fit(d, k, s, most=k - 1) for k, s in zip(kernel, stride, strict=True))
    x = d.input((d.between(1, 2), h, w, d.between(1, 4)), dtype)
    window = {"stride": stride, "pad": (top, bottom, left, right)}
    if op == "max_pool2d":
        return x.largest(*kernel, **window)
    return x.average(*kernel, in_zp=d.zero(dtype), out_zp=d.zero(dtype), **window)


#: What adds each operator to a graph.
CASES: dict[str, Callable[[Draw, str], Term]] = {
    "resize": _resize,
    **dict.fromkeys(["conv2d", "depthwise_conv2d"], _conv),
    "transpose_conv2d": _transpose_conv,
    **dict.fromkeys(["max_pool2d", "avg_pool2d"], _pool),
}
