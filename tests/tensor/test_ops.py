"""The op table answers every question about every operator, and its integers are those of the TOSA reference model, to
the bit, on random small graphs of one operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import get_args

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eqsat.egraph.attributes import constructor_of
from eqsat.ground.worker import Worker
from eqsat.tensor import makers, schema
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.op import NotModelled, Op, OpKind, define
from eqsat.tensor.types import GraphError, Type
from eqsat.tosa import dumps
from eqsat.tosa.reference import run_reference
from tests.graphs import DOUBLE_ROUND, SINGLE_ROUND, clamp, finish, rescale

INTEGERS = ("INT8", "INT16", "INT32")
Case = tuple[TensorGraph, list[np.ndarray]]


class Draw:
    """Builds one graph of one operator: draws attributes and values."""

    def __init__(self, data: st.DataObject):
        self.data, self.g, self.values = data, TensorGraph(), []
        self.rng = np.random.default_rng(self.int(0, 2**32 - 1))

    def int(self, low: int, high: int) -> int:
        return self.data.draw(st.integers(low, high))

    def of(self, *options):
        return self.data.draw(st.sampled_from(options))

    def bool(self) -> bool:
        return self.data.draw(st.booleans())

    def shape(self, low: int = 1, high: int = 4, largest: int = 5) -> tuple[int, ...]:
        return tuple(self.data.draw(st.lists(st.integers(1, largest), min_size=low, max_size=high)))

    def array(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> np.ndarray:
        """Uniform values with extremes and zeros strewn in."""
        lo, hi = DType.of(dtype).limits
        lo, hi = max(lo, lo if low is None else low), min(hi, hi if high is None else high)
        x = self.rng.integers(lo, hi, shape, endpoint=True)
        extreme = self.rng.choice([lo, hi, max(lo, min(hi, 0)), max(lo, min(hi, -1))], shape)
        return np.where(self.rng.random(shape) < 0.4, extreme, x).astype(DType.of(dtype).storage)

    def input(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> int:
        self.values.append(self.array(shape, dtype, low, high))
        return self.g.add_input(f"x{len(self.values)}", shape, dtype)

    def const(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> int:
        return self.g.add_const(self.array(shape, dtype, low, high), dtype)

    def zero(self, dtype: str) -> tuple[int]:
        """A zero point: only INT8 has any but 0."""
        return (self.int(-128, 127) if dtype == "INT8" else 0,)

    def done(self, *nodes: int) -> Case:
        return finish(self.g, *nodes), self.values


CASES: dict[str, Callable[[Draw], Case]] = {}


def case(*ops: str):
    def register(fn: Callable) -> Callable:
        for op in ops:
            CASES[op] = lambda d, op=op: fn(d, op)
        return fn

    return register


EVALUATED = [op for op, spec in OPS.items() if spec.tosa and not isinstance(spec.integer, NotModelled)]


def check(case: Case, op: str, worker: Worker) -> None:
    graph, values = case
    assert op in graph.op_counts()
    want = run_reference(dumps(graph), values, worker, timeout=20)
    for got, ref, t in zip(graph.evaluate(values), want, graph.signature()[1], strict=True):
        assert got.dtype == DType.of(t.dtype).storage and got.shape == t.shape
        np.testing.assert_array_equal(got, ref)


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
@pytest.mark.parametrize("op", EVALUATED)
def test_equals_the_reference_model(op: str, worker: Worker, data: st.DataObject) -> None:
    check(CASES[op](Draw(data)), op, worker)


class Scalars(Draw):
    """Tensors without axes."""

    def shape(self, low: int = 1, high: int = 4, largest: int = 5) -> tuple[int, ...]:
        return ()


#: TOSA allows tensors without axes where no attribute names an axis.
WITHOUT_AXES = [op for op in EVALUATED if OPS[op].kind == "pointwise"]


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None)
@given(data=st.data())
@pytest.mark.parametrize("op", WITHOUT_AXES)
def test_equals_the_reference_model_without_axes(op: str, worker: Worker, data: st.DataObject) -> None:
    check(CASES[op](Scalars(data)), op, worker)


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
    assert constructor_of(op.name, max(op.operands, 1), False)
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


# ---- movement -----------------------------------------------------------------------------------


@case("transpose")
def _transpose(d: Draw, op: str) -> Case:
    shape = d.shape(1, 5)
    x = d.input(shape, d.of("BOOL", *INTEGERS))
    return d.done(d.g.add(op, [x], perms=tuple(d.data.draw(st.permutations(range(len(shape)))))))


@case("reshape")
def _reshape(d: Draw, op: str) -> Case:
    a, b, c = (d.int(1, 5) for _ in range(3))
    return d.done(
        d.g.add(
            op,
            [d.input((a, b, c), d.of("BOOL", *INTEGERS))],
            shape=d.of((a * b, c), (c, b, a), (a * b * c,), (1, a, 1, b * c)),
        )
    )


@case("identity")
def _identity(d: Draw, op: str) -> Case:
    return d.done(d.g.add(op, [d.input(d.shape(), d.of("BOOL", *INTEGERS))]))


@case("concat")
def _concat(d: Draw, op: str) -> Case:
    shape, dtype = d.shape(1, 4), d.of("BOOL", *INTEGERS)
    axis = d.int(0, len(shape) - 1)
    xs = [d.input((*shape[:axis], d.int(1, 4), *shape[axis + 1 :]), dtype) for _ in range(d.int(1, 4))]
    return d.done(d.g.add(op, xs, axis=axis))


@case("slice")
def _slice(d: Draw, op: str) -> Case:
    shape = d.shape()
    start = tuple(d.int(0, n - 1) for n in shape)
    size = tuple(d.int(1, n - s) for n, s in zip(shape, start, strict=True))
    return d.done(d.g.add(op, [d.input(shape, d.of("BOOL", *INTEGERS))], start=start, size=size))


@case("pad")
def _pad(d: Draw, op: str) -> Case:
    shape, dtype = d.shape(1, 4, 3), d.of("BOOL", *INTEGERS)
    pads = tuple(d.int(0, 2) for _ in range(2 * len(shape)))
    return d.done(d.g.add(op, [d.input(shape, dtype)], pads=pads, value=(d.int(*DType.of(dtype).limits),)))


@case("tile")
def _tile(d: Draw, op: str) -> Case:
    shape = d.shape(1, 4, 3)
    return d.done(d.g.add(op, [d.input(shape, d.of("BOOL", *INTEGERS))], multiples=tuple(d.int(1, 3) for _ in shape)))


@case("reverse")
def _reverse(d: Draw, op: str) -> Case:
    shape = d.shape()
    return d.done(d.g.add(op, [d.input(shape, d.of("BOOL", *INTEGERS))], axis=d.int(0, len(shape) - 1)))


# ---- one operand --------------------------------------------------------------------------------


@case("abs", "clz")
def _wide(d: Draw, op: str) -> Case:
    return d.done(d.g.add(op, [d.input(d.shape(), "INT32", 1 - (1 << 31) if op == "abs" else None)]))


@case("bitwise_not")
def _not(d: Draw, op: str) -> Case:
    return d.done(d.g.add(op, [d.input(d.shape(), d.of(*INTEGERS))]))


@case("logical_not")
def _logical_not(d: Draw, op: str) -> Case:
    return d.done(d.g.add(op, [d.input(d.shape(), "BOOL")]))


@case("negate")
def _negate(d: Draw, op: str) -> Case:
    dtype = d.of(*INTEGERS)
    low = 1 - (1 << 31) if dtype == "INT32" else None  # TOSA leaves what overflows 32 bits undefined
    return d.done(d.g.add(op, [d.input(d.shape(), dtype, low)], in_zp=d.zero(dtype), out_zp=d.zero(dtype)))


@case("clamp")
def _clamp(d: Draw, op: str) -> Case:
    dtype = d.of("INT8", "INT16")
    low = d.int(*DType.of(dtype).limits)
    return d.done(clamp(d.g, d.input(d.shape(), dtype), low, d.int(low, DType.of(dtype).limits[1])))


@case("table")
def _table(d: Draw, op: str) -> Case:
    dtype = d.of("INT8", "INT16")
    entries = d.array((256 if dtype == "INT8" else 513,), dtype)
    if dtype == "INT16":  # the specification wants slopes within 16 bits
        entries = entries // 2
    return d.done(d.g.add(op, [d.input(d.shape(), dtype)], table=tuple(int(v) for v in entries)))


@case("cast")
def _cast(d: Draw, op: str) -> Case:
    source = d.of("BOOL", *INTEGERS)
    return d.done(
        d.g.add(op, [d.input(d.shape(), source)], dtype=d.of(*(t for t in ("BOOL", *INTEGERS) if t != source)))
    )


@case("rescale")
def _rescale(d: Draw, op: str) -> Case:
    source, target, shape = d.of("INT8", "INT16", "INT32", "INT48"), d.of(*INTEGERS), d.shape()
    scale32 = source != "INT48" and d.bool()
    rounding = d.of(SINGLE_ROUND, *[DOUBLE_ROUND] * scale32)
    channels = shape[-1] if shape and d.bool() else 1
    limit = (1 << 31) - 1 if scale32 else (1 << 15) - 1
    multiplier = [d.int(0, limit) for _ in range(channels)]
    # the specification wants |value| < 2**(shift - 1) and a result within 32 bits
    bits = {"INT8": 9, "INT16": 17, "INT32": 32, "INT48": 48}[source]
    least = max(bits + 1 if scale32 else 2, bits + (31 if scale32 else 15) - 30)
    borders = [s for s in (31, 32) if s >= least]  # of double rounding
    shift = [d.of(*borders, d.int(min(least, 62), 62)) for _ in range(channels)]
    unsigned_in = source in ("INT8", "INT16") and target != "INT32" and d.bool()
    unsigned_out = not unsigned_in and source in INTEGERS[:2] and target in ("INT8", "INT16") and d.bool()
    in_zp, out_zp = (
        0 if t in ("INT32", "INT48") else d.int(-128, 127) if t == "INT8" else d.of(0, -32768) if unsigned else 0
        for t, unsigned in ((source, unsigned_in), (target, unsigned_out))
    )
    x = (d.const if source == "INT48" else d.input)(shape, source)  # the reference model takes no INT48 inputs
    return d.done(
        rescale(
            d.g,
            x,
            target,
            multiplier=multiplier,
            shift=shift,
            in_zp=in_zp,
            out_zp=out_zp,
            scale32=scale32,
            rounding=rounding,
            input_unsigned=unsigned_in,
            output_unsigned=unsigned_out,
        )
    )


# ---- two and three operands ---------------------------------------------------------------------


def _broadcast(d: Draw, n: int) -> list[tuple[int, ...]]:
    shape = d.shape()
    return [tuple(1 if d.int(0, 3) == 0 else k for k in shape) for _ in range(n)]


def _binary(d: Draw, op: str, dtype: str, low: int | None = None, high: int | None = None, **attrs) -> Case:
    left, right = _broadcast(d, 2)
    return d.done(d.g.add(op, [d.input(left, dtype, low, high), d.input(right, dtype, low, high)], **attrs))


@case("add", "sub")
def _sum(d: Draw, op: str) -> Case:
    return _binary(d, op, "INT32", -(1 << 30), (1 << 30) - 1)


@case("maximum", "minimum")
def _extremum(d: Draw, op: str) -> Case:
    return _binary(d, op, "INT32", nan_mode=1)


@case("bitwise_and", "bitwise_or", "bitwise_xor")
def _bitwise(d: Draw, op: str) -> Case:
    return _binary(d, op, d.of(*INTEGERS))


@case("logical_and", "logical_or", "logical_xor")
def _logical(d: Draw, op: str) -> Case:
    return _binary(d, op, "BOOL")


@case("equal", "greater", "greater_equal")
def _compare(d: Draw, op: str) -> Case:
    return _binary(d, op, "INT32", *d.of((None, None), (-2, 2)))


@case("arithmetic_right_shift", "logical_left_shift", "logical_right_shift")
def _shift(d: Draw, op: str) -> Case:
    dtype = d.of(*INTEGERS)
    left, right = _broadcast(d, 2)
    width = {"INT8": 8, "INT16": 16, "INT32": 32}[dtype]
    x, amount = d.input(left, dtype), d.input(right, dtype, 0, width - 1)
    return d.done(d.g.add(op, [x, amount], **({"round": d.bool()} if op == "arithmetic_right_shift" else {})))


@case("intdiv")
def _intdiv(d: Draw, op: str) -> Case:
    left, right = _broadcast(d, 2)
    positive = d.bool()
    x = d.input(left, "INT32", -(1 << 31) + 1)
    return d.done(d.g.add(op, [x, d.input(right, "INT32", *((1, None) if positive else (None, -1)))]))


@case("mul")
def _mul(d: Draw, op: str) -> Case:
    dtype = d.of(*INTEGERS)
    shift = d.int(0, 62) if dtype == "INT32" else 0
    limit = min((1 << 31) - 1, int(2 ** ((30 + shift) / 2)))
    return _binary(d, op, dtype, -limit, limit, shift=(shift,))


@case("select")
def _select(d: Draw, op: str) -> Case:
    shapes, dtype = _broadcast(d, 3), d.of("BOOL", *INTEGERS)
    return d.done(d.g.add(op, [d.input(s, t) for s, t in zip(shapes, ("BOOL", dtype, dtype), strict=True)]))


# ---- reductions ---------------------------------------------------------------------------------


@case("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all")
def _reduce(d: Draw, op: str) -> Case:
    shape = d.shape()
    attrs = {"nan_mode": 1} if op in ("reduce_max", "reduce_min") else {}
    dtype = "BOOL" if op in ("reduce_any", "reduce_all") else "INT32" if op == "reduce_sum" else d.of(*INTEGERS)
    bound = (1 << 28) if op == "reduce_sum" else (1 << 31)
    return d.done(d.g.add(op, [d.input(shape, dtype, -bound, bound)], axis=d.int(0, len(shape) - 1), **attrs))


@case("argmax")
def _argmax(d: Draw, op: str) -> Case:
    shape = d.shape()
    low, high = d.of((None, None), (-2, 2))
    return d.done(
        d.g.add(op, [d.input(shape, d.of("INT8", "INT16"), low, high)], axis=d.int(0, len(shape) - 1), nan_mode=1)
    )


# ---- positions ----------------------------------------------------------------------------------


@case("gather")
def _gather(d: Draw, op: str) -> Case:
    n, k, w, c = (d.int(1, 4) for _ in range(4))
    return d.done(d.g.add(op, [d.input((n, k, c), d.of(*INTEGERS)), d.input((n, w), "INT32", 0, k - 1)]))


@case("scatter")
def _scatter(d: Draw, op: str) -> Case:
    n, k, c = (d.int(1, 4) for _ in range(3))
    w, dtype = d.int(1, k), d.of(*INTEGERS)
    values = d.input((n, k, c), dtype)
    d.values.append(np.stack([d.rng.permutation(k)[:w] for _ in range(n)]).astype(np.int32))  # every position once
    return d.done(d.g.add(op, [values, d.g.add_input("indices", (n, w), "INT32"), d.input((n, w, c), dtype)]))


def _scale(d: Draw, size: int) -> tuple[tuple[int, int], int, int]:
    """(scale, offset, border) that give a whole number of elements, up or down."""
    numerator, denominator = d.int(1, 6), d.int(1, 6)
    denominator = min(denominator, 16 * numerator - 1)
    offset = d.int(-numerator, min(16 * numerator - 1, (size - 1) * numerator))
    steps = max(0, (size - 1) * numerator - offset + d.int(-numerator, numerator))
    border = steps // denominator * denominator - (size - 1) * numerator + offset
    if not -16 * numerator <= border < numerator:
        return (numerator, denominator), 0, -((size - 1) * numerator % denominator)
    return (numerator, denominator), offset, border


@case("resize")
def _resize(d: Draw, op: str) -> Case:
    n, h, w, c = (d.int(1, 5) for _ in range(4))
    (sy, oy, by), (sx, ox, bx) = _scale(d, h), _scale(d, w)
    attrs = {"scale": (*sy, *sx), "offset": (oy, ox), "border": (by, bx), "mode": d.of(NEAREST, BILINEAR)}
    return _visible(d, d.g.add(op, [d.input((n, h, w, c), d.of("INT8", "INT16"))], **attrs))


# ---- multiply-accumulate ------------------------------------------------------------------------


def _fit(d: Draw, kernel: int, stride: int, dilation: int = 1) -> tuple[int, int, int]:
    """(size, pad before, pad after) for which the strides come out even."""
    before, after = d.int(0, kernel), d.int(0, kernel)
    span = d.int(0, 3) * stride + (kernel - 1) * dilation + 1
    while span - before - after < 1:
        span += stride
    return span - before - after, before, after


def _conv_operands(d: Draw) -> tuple[str, dict]:
    dtype = d.of("INT8", "INT16")
    return dtype, {"in_zp": d.zero(dtype)[0], "w_zp": d.int(-128, 127) if dtype == "INT8" else 0}


def _bias(d: Draw, dtype: str, channels: int) -> int:
    return d.const((d.of(1, channels),), DType.of(dtype).accumulator, -(1 << 30), 1 << 30)


def _visible(d: Draw, y: int) -> Case:
    """The reference model gives no INT48 outputs: the sums are shown as INT32, times one."""
    return d.done(
        y if d.g.nodes[y].dtype != "INT48" else rescale(d.g, y, "INT32", multiplier=(4,), shift=(2,), scale32=False)
    )


@case("conv2d", "depthwise_conv2d")
def _conv(d: Draw, op: str) -> Case:
    dtype, zps = _conv_operands(d)
    kernel, stride, dilation = ((d.int(1, 3), d.int(1, 3)) for _ in range(3))
    (h, top, bottom), (w, left, right) = (_fit(d, *ksd) for ksd in zip(kernel, stride, dilation, strict=True))
    n, c, m = d.int(1, 2), d.int(1, 4), d.int(1, 3)
    weights, out = ((m, *kernel, c), m) if op == "conv2d" else ((*kernel, c, m), c * m)
    x = d.input((n, h, w, c), dtype)
    return _visible(
        d,
        d.g.add_with(
            op,
            [x, d.const(weights, "INT8"), _bias(d, dtype, out)],
            makers.conv(dtype, pad=(top, bottom, left, right), stride=stride, dilation=dilation, **zps),
        ),
    )


@case("transpose_conv2d")
def _transpose_conv(d: Draw, op: str) -> Case:
    dtype, zps = _conv_operands(d)
    kernel, stride = ((d.int(1, 3), d.int(1, 3)) for _ in range(2))
    n, h, w, c, m = d.int(1, 2), d.int(1, 3), d.int(1, 3), d.int(1, 4), d.int(1, 3)
    pads = []
    for size, k, s in ((h, kernel[0], stride[0]), (w, kernel[1], stride[1])):
        before, after = d.int(1 - k, 2), d.int(1 - k, 2)
        while (size - 1) * s + before + after + k < 1:
            after += 1
        pads += [before, after]
    x = d.input((n, h, w, c), dtype)
    return _visible(
        d,
        d.g.add_with(
            op,
            [x, d.const((m, *kernel, c), "INT8"), _bias(d, dtype, m)],
            makers.transpose_conv(dtype, out_pad=pads, stride=stride, **zps),
        ),
    )


@case("matmul")
def _matmul(d: Draw, op: str) -> Case:
    dtype = d.of("INT8", "INT16")
    n, h, c, w = (d.int(1, 4) for _ in range(4))
    bound = None if dtype == "INT8" else 1 << 14  # the INT48 sums are to fit 32 bits
    x, y = (d.input(shape, dtype, bound and -bound, bound) for shape in ((n, h, c), (n, c, w)))
    return _visible(d, d.g.add(op, [x, y], in_zp=d.zero(dtype), w_zp=d.zero(dtype)))


@case("max_pool2d", "avg_pool2d")
def _pool(d: Draw, op: str) -> Case:
    dtype = d.of("INT8", "INT16")
    kernel, stride = ((d.int(1, 4), d.int(1, 3)) for _ in range(2))
    sides = []
    for k, s in zip(kernel, stride, strict=True):
        before, after = d.int(0, k - 1), d.int(0, k - 1)
        span = d.int(0, 3) * s + k
        while span - before - after < 1:
            span += s
        sides.append((span - before - after, before, after))
    (h, top, bottom), (w, left, right) = sides
    extra = {"nan_mode": 1} if op == "max_pool2d" else {"acc_type": 5, "in_zp": d.zero(dtype), "out_zp": d.zero(dtype)}
    x = d.input((d.int(1, 2), h, w, d.int(1, 4)), dtype)
    return d.done(d.g.add(op, [x], kernel=kernel, stride=stride, pad=(top, bottom, left, right), **extra))
