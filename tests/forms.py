"""Every operator of TOSA on every dtype with its attributes at their limits, on a few elements, and inputs at limits.

`FORMS` are generated from dtypes and attributes; what a form gives is asked of the TOSA reference model (`answers`).
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.proof.counterexample import evaluate_outputs
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS, infer
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND, SINGLE_ROUND
from eqsat.tensor.types import Array, Attrs, DType, Type, Unpredictable, attrs_of
from eqsat.tosa import dumps
from eqsat.tosa.reference import run_samples

#: What TOSA leaves open.
OPEN = None
#: Operators on which the reference model crashes where TOSA leaves the result open.
CRASHES = {"gather", "scatter", "intdiv"}
#: Operators whose sums the reference model adds up without looking for overflow.
SILENT = {"conv2d", "depthwise_conv2d", "transpose_conv2d"}
#: Samples of one form: combinations of limits, at most, and samples of operands of several elements.
_MOST, _FEWER = 96, 24
INTEGERS = ["INT8", "INT16", "INT32"]
#: Operators behind sums of INT48, which the reference model does not show.
_NARROW = (("rescale", makers.rescale("INT32", scale32=False)),)
_RNG = np.random.default_rng(7)


def limits(dtype: str, *more: int) -> list[int]:
    """The values at the ends of a dtype and around 0, and `more` of them with their neighbours."""
    low, high = DType.of(dtype).limits
    values = {low, low + 1, -1, 0, 1, 2, high - 1, high, *(m + k for m in more for k in (-1, 0, 1))}
    return sorted(v for v in values if low <= v <= high)


@dataclass(frozen=True)
class Form:
    """One operator with attributes on operands of these types.

    points: of each operand, values at which it may behave differently.
    after: operators behind it, for results that the reference model does not show.
    bias: value of the last operand, which is INT48 and so no input of the reference model.
    """

    op: str
    attrs: Attrs
    types: tuple[Type, ...]
    points: tuple[tuple[int, ...], ...] = ()
    after: tuple[tuple[str, Attrs], ...] = ()
    bias: int | None = None

    @property
    def text(self) -> str:
        shown = ",".join(f"{k}={v if not isinstance(v, tuple) or len(v) < 9 else '...'}" for k, v in self.attrs)
        dtypes = ",".join(f"{t.dtype}{list(t.shape)}" for t in self.types)
        return f"{self.op}({dtypes}; {shown}){''.join(f' > {op}' for op, _ in self.after)}"

    @property
    def inputs(self) -> tuple[Type, ...]:
        return self.types if self.bias is None else self.types[:-1]

    @property
    def is_pointwise(self) -> bool:
        """Whether many samples may be the elements of one tensor."""
        return all(OPS[op].kind == "pointwise" for op, _ in self.steps()) and all(t.shape == (1,) for t in self.types)

    def steps(self) -> tuple[tuple[str, Attrs], ...]:
        return ((self.op, self.attrs), *self.after)

    def graph(self, values: Sequence[Array] | None = None) -> TensorGraph:
        """The operator on inputs, or on constants, which may have more elements."""
        g = TensorGraph()
        if values is None:
            n = [g.add_input(f"x{k}", t.shape, t.dtype) for k, t in enumerate(self.inputs)]
        else:
            n = [g.add_const(x, t.dtype) for x, t in zip(values, self.inputs, strict=True)]
        if self.bias is not None:
            n.append(g.add_const(_array(self.bias, self.types[-1]), self.types[-1].dtype))
        for op, attrs in self.steps():
            n = [g.add_with(op, n, attrs)]
        g.outputs += n
        return g

    @cached_property
    def samples(self) -> list[list[Array]]:
        """Inputs: all limits against all where these are few, and random ones."""
        columns = [limits(t.dtype, *p) for t, p in itertools.zip_longest(self.inputs, self.points, fillvalue=())]
        rng = np.random.default_rng(zlib.crc32(self.text.encode()))
        if all(t.elements == 1 for t in self.inputs):
            rows = list(itertools.product(*columns))
            rows = [rows[k] for k in rng.permutation(len(rows))[:_MOST]]
            ends = [DType.of(t.dtype).limits for t in self.inputs]
            rows += [tuple(rng.integers(*e, endpoint=True) for e in ends) for _ in range(8)]
            return [[_array(v, t) for v, t in zip(row, self.inputs, strict=True)] for row in rows]
        return [
            [
                np.asarray(
                    rng.choice(c, t.shape if k % 2 else (1,) * len(t.shape)) + np.zeros(t.shape, np.int64)
                ).astype(DType.of(t.dtype).storage)
                for c, t in zip(columns, self.inputs, strict=True)
            ]
            for k in range(_FEWER)
        ]

    @cached_property
    def values(self) -> list[Array | None]:
        """The op table's result for each sample, or OPEN."""
        graph = self.graph()
        return [value(graph, sample) for sample in self.samples]

    def answers(self, via: Pool | Worker) -> list[Array | None]:
        """The reference model's result for each sample, or OPEN.

        It crashes where positions are outside and divisors are 0, so it is not asked there.
        Raises WorkerError if it refuses the operator.
        """
        every = range(len(self.samples))
        asked = [k for k in every if self.op not in CRASHES or self.values[k] is not OPEN]
        found = answers(self.graph(), [self.samples[k] for k in asked], via)
        return [dict(zip(asked, found, strict=True)).get(k, OPEN) for k in every]


def value(graph: TensorGraph, sample: Sequence[Array]) -> Array | None:
    """The graph's first output by the op table, or OPEN."""
    try:
        outputs = evaluate_outputs(graph, sample)
    except Unpredictable:
        return OPEN
    return OPEN if outputs is None else outputs[0]


def answers(graph: TensorGraph, samples: Sequence[Sequence[Array]], via: Pool | Worker) -> list[Array | None]:
    """The first output by the reference model for each sample, or OPEN. Raises WorkerError if it refuses the graph."""
    out: list[Array | None] = []
    for a in run_samples(dumps(graph), samples, via) if samples else ():
        if isinstance(a, WorkerError) and "UNPREDICTABLE" not in str(a):
            raise a
        out.append(OPEN if isinstance(a, WorkerError) else a[0])
    return out


def _array(value: int, t: Type) -> Array:
    return np.full(t.shape, value, DType.of(t.dtype).storage)


def _one(*dtypes: str) -> tuple[Type, ...]:
    return tuple(Type((1,), d) for d in dtypes)


def _attrs(**values: Any) -> Attrs:
    return attrs_of(values)


def _zero_points(dtype: str, unsigned: bool = False) -> tuple[int, ...]:
    if dtype == "INT8":
        return (-128, -1, 0, 127)
    return (0, -32768) if unsigned and dtype == "INT16" else (0,)


def _of_one() -> Iterator[Form]:
    for dtype in INTEGERS:
        one, (low, high), bits = _one(dtype), DType.of(dtype).limits, DType.of(dtype).bits
        yield Form("identity", (), one)
        yield Form("bitwise_not", (), one)
        for zp, out_zp in itertools.product(_zero_points(dtype), repeat=2):
            yield Form("negate", _attrs(in_zp=(zp,), out_zp=(out_zp,)), one, ((zp,),))
        for to in ("BOOL", *INTEGERS):
            if to != dtype:
                narrow = () if to == "BOOL" else DType.of(to).limits
                yield Form("cast", _attrs(dtype=to), one, ((*narrow, 1 << 8, 1 << 16),))
        if dtype == "INT32":
            yield Form("abs", (), one)
            yield Form("clz", (), one, (tuple(1 << k for k in range(bits - 1)),))
            continue
        for a, b in ((low, high), (low, low), (high, high), (low + 1, high), (low, high - 1), (-1, 1), (0, 0), (5, 6)):
            yield Form("clamp", makers.clamp(dtype, a, b), one, ((a, b),))
        entries = 256 if dtype == "INT8" else 513
        for table in (
            np.arange(entries) - entries // 2,
            np.where(np.arange(entries) % 2, high, low) if dtype == "INT8" else np.arange(entries) % 3 * 16000 - 16000,
            np.full(entries, high),
            np.full(entries, low),
            _RNG.integers(low // 2, high // 2, entries),
        ):
            yield Form("table", makers.table(table), one, (tuple(range(-256, 256, 32)),))
    yield Form("logical_not", (), _one("BOOL"))
    yield Form("identity", (), _one("BOOL"))
    for to in INTEGERS:
        yield Form("cast", _attrs(dtype=to), _one("BOOL"))


_SCALES = [(m, s) for m in (0, 1, 3, 1 << 30, (1 << 31) - 1) for s in (2, 8, 16, 30, 31, 32, 33, 48, 61, 62)]


def _rescales() -> Iterator[Form]:
    for source, target in itertools.product(("INT8", "INT16", "INT32", "INT48"), INTEGERS):
        for scale32, rounding in ((True, SINGLE_ROUND), (True, DOUBLE_ROUND), (False, SINGLE_ROUND)):
            if source == "INT48" and scale32:
                continue
            for k, (m, s) in enumerate(_SCALES):
                m = m if scale32 else min(m >> 16 if m > 3 else m, (1 << 15) - 1)
                zps = list(itertools.product(_zero_points(source), _zero_points(target)))
                zp, out_zp = zps[k * 5 % len(zps)]
                near = 1 << s - 1
                attrs = makers.rescale(target, m, s, in_zp=zp, out_zp=out_zp, scale32=scale32, rounding_mode=rounding)
                steps = tuple(((1 << s) * v + (1 << s - 1)) // max(m, 1) for v in (*DType.of(target).limits, 0, 1))
                points = (zp - near, zp + near, zp, *steps)
                if source != "INT48":
                    yield Form("rescale", attrs, _one(source), (points,))
                    continue
                for bias in {0, (1 << 46), min(max(points), 1 << 46), max(min(points), -(1 << 47)), -(1 << 46)}:
                    types = Type((1, 1, 1, 1), "INT16"), Type((1, 1, 1, 1), "INT8"), Type((1,), "INT48")
                    yield Form("conv2d", makers.conv("INT16"), types, (), (("rescale", attrs),), bias)
    for source, target in itertools.product(("INT8", "INT16"), repeat=2):
        for into, out in ((True, False), (False, True)):
            for m, s in ((1 << 30, 30), (1, 2), ((1 << 31) - 1, 31), (1 << 30, 62)):
                for zp, out_zp in itertools.product(_zero_points(source, into), _zero_points(target, out)):
                    signs = {"input_unsigned": into, "output_unsigned": out}
                    attrs = makers.rescale(target, m, s, in_zp=zp, out_zp=out_zp, **signs)
                    yield Form("rescale", attrs, _one(source), ((zp,),))
    for target in INTEGERS:
        for s in (31, 32):
            attrs = makers.rescale(target, [0, 1 << 30, 5], [2, s, 32], rounding_mode=DOUBLE_ROUND)
            yield Form("rescale", attrs, (Type((1, 3), "INT32"),), ((1, -1, 1 << 30, -(1 << 30)),))


def _of_two() -> Iterator[Form]:
    for dtype in INTEGERS:
        two, bits = _one(dtype, dtype), DType.of(dtype).bits
        amounts = ((), (7, 8, 15, 16, 31, 32, bits - 1, bits))
        for rounds in (False, True):
            yield Form("arithmetic_right_shift", _attrs(round=rounds), two, amounts)
        yield Form("logical_left_shift", (), two, amounts)
        yield Form("logical_right_shift", (), two, amounts)
        for name in ("and", "or", "xor"):
            yield Form(f"bitwise_{name}", (), two)
        for shift in (0, 1, 2, 30, 31, 32, 61, 62, 63) if dtype == "INT32" else (0,):
            edge = int(2 ** ((31 + shift) / 2))
            yield Form("mul", makers.mul(shift), two, ((edge, -edge, 1 << 16),) * 2)
        yield Form("select", (), _one("BOOL", dtype, dtype))
    wide = _one("INT32", "INT32")
    for op in ("add", "sub"):
        yield Form(op, (), wide, ((1 << 30, -(1 << 30)),) * 2)
    yield Form("intdiv", (), wide, ((7, -7), (3, -3)))
    for op in ("maximum", "minimum"):
        yield Form(op, makers.extremum(), wide)
    for op in ("equal", "greater", "greater_equal"):
        yield Form(op, (), wide)
    for name in ("and", "or", "xor"):
        yield Form(f"logical_{name}", (), _one("BOOL", "BOOL"))
    yield Form("select", (), _one("BOOL", "BOOL", "BOOL"))


def _reductions() -> Iterator[Form]:
    for axis, shape in ((0, (3,)), (1, (2, 3)), (0, (2, 2)), (0, (1,))):
        for op in ("any", "all"):
            yield Form(f"reduce_{op}", _attrs(axis=axis), (Type(shape, "BOOL"),))
        yield Form("reduce_sum", _attrs(axis=axis), (Type(shape, "INT32"),), ((1 << 30, -(1 << 30)),))
        for dtype in INTEGERS:
            for op in ("max", "min"):
                yield Form(f"reduce_{op}", makers.extremum(axis), (Type(shape, dtype),))
            if dtype != "INT32":
                yield Form("argmax", makers.extremum(axis), (Type(shape, dtype),))


def _indexed() -> Iterator[Form]:
    for dtype, k, w in itertools.product(INTEGERS, (1, 3), (1, 2, 3)):
        positions = (0, 1, k - 1, k)
        yield Form("gather", (), (Type((1, k, 2), dtype), Type((1, w), "INT32")), ((), positions))
        if w <= k:
            types = Type((1, k, 1), dtype), Type((1, w), "INT32"), Type((1, w, 1), dtype)
            yield Form("scatter", (), types, ((), positions))
    for dtype, mode in itertools.product(("INT8", "INT16"), (NEAREST, BILINEAR)):
        narrow = _NARROW if DType.of(dtype).accumulator == "INT48" and mode == BILINEAR else ()
        for scale, offset, border in (
            ((2, 1, 2, 1), (0, 0), (0, 0)),
            ((2, 1, 2, 1), (-1, -1), (1, 1)),
            ((4, 2, 4, 2), (-1, 1), (1, -1)),
            ((1, 1, 3, 1), (0, -1), (0, 1)),
            ((3, 2, 3, 2), (-2, 2), (0, 0)),
            ((16, 1, 1, 1), (0, 0), (0, 0)),
            ((1, 2, 2, 5), (0, -1), (0, 0)),
            ((5, 3, 4, 6), (-2, 2), (0, 0)),
            ((3, 4, 6, 5), (2, 3), (0, 1)),
        ):
            attrs = _attrs(scale=scale, offset=offset, border=border, mode=mode)
            x = Type((1, 3, 3, 1), dtype)
            try:
                infer("resize", attrs, [x])
            except ValueError:
                continue
            yield Form("resize", attrs, (x,), (), narrow)


def _windows() -> Iterator[Form]:
    for dtype in ("INT8", "INT16"):
        sums = DType.of(dtype).accumulator
        narrow = () if sums == "INT32" else _NARROW
        for zp, w_zp in itertools.product(_zero_points(dtype), _zero_points("INT8")):
            if dtype == "INT16" and w_zp:
                continue
            ends = ((), (), ((1 << 31) - 1 - (1 << 14), -(1 << 31) + (1 << 14))) if sums == "INT32" else ()
            bias = None if sums == "INT32" else -(1 << 20)
            for pad, stride, dilation, out_pad in (
                ((0, 0, 0, 0), (1, 1), (1, 1), (0, 1, -1, 0)),
                ((1, 0, 0, 1), (1, 1), (1, 1), (-1, 0, 0, 1)),
                ((1, 1, 1, 1), (1, 1), (2, 2), (0, -1, 1, 0)),
                ((1, 1, 1, 1), (2, 2), (1, 1), (0, 1, -1, 0)),
            ):
                x, b = Type((1, 3, 3, 1), dtype), Type((1,), sums)
                k = (2, 2) if stride == (1, 1) else (1, 1)
                attrs = makers.conv(dtype, pad=pad, stride=stride, dilation=dilation, in_zp=zp, w_zp=w_zp)
                yield Form("conv2d", attrs, (x, Type((1, *k, 1), "INT8"), b), ends, narrow, bias)
                yield Form("depthwise_conv2d", attrs, (x, Type((*k, 1, 1), "INT8"), b), ends, narrow, bias)
                out = makers.transpose_conv(dtype, out_pad=out_pad, stride=stride, in_zp=zp, w_zp=w_zp)
                yield Form("transpose_conv2d", out, (x, Type((1, 2, 2, 1), "INT8"), b), ends, narrow, bias)
        for zp, other in itertools.product(_zero_points(dtype), repeat=2):
            two = Type((1, 1, 3), dtype), Type((1, 3, 1), dtype)
            yield Form("matmul", makers.matmul(zp, other), two, (), narrow)
            for kernel, stride, pad in (
                ((1, 1), (1, 1), (0, 0, 0, 0)),
                ((2, 2), (1, 1), (1, 0, 0, 1)),
                ((3, 3), (1, 1), (1, 1, 1, 1)),
                ((3, 1), (2, 1), (1, 1, 0, 0)),
            ):
                x = Type((1, 3, 3, 1), dtype)
                attrs = makers.avg_pool(kernel, stride=stride, pad=pad, in_zp=zp, out_zp=other)
                yield Form("avg_pool2d", attrs, (x,))
                if not zp and not other:
                    yield Form("max_pool2d", makers.max_pool(kernel, stride=stride, pad=pad), (x,))


def _movements() -> Iterator[Form]:
    for dtype in ("BOOL", *INTEGERS):
        x, low = Type((2, 3), dtype), DType.of(dtype).limits[0]
        yield Form("pad", makers.pad((1, 0, 0, 2), low), (x,))
        yield Form("concat", _attrs(axis=1), (x, x))
        yield Form("slice", _attrs(start=(0, 1), size=(2, 2)), (x,))
        yield Form("tile", _attrs(multiples=(2, 2)), (x,))
        yield Form("reverse", _attrs(axis=1), (x,))
        yield Form("transpose", _attrs(perms=(1, 0)), (x,))
        yield Form("reshape", _attrs(shape=(3, 2)), (x,))


def forms() -> list[Form]:
    """All forms."""
    return [*_of_one(), *_rescales(), *_of_two(), *_reductions(), *_indexed(), *_windows(), *_movements()]


def by_operator() -> dict[str, list[Form]]:
    """The forms of each operator."""
    out: dict[str, list[Form]] = {}
    for form in forms():
        out.setdefault(form.op, []).append(form)
    return out


def followed(number: int, seed: int) -> Iterator[Form]:
    """Random forms with one or two further operators behind them."""
    rng = np.random.default_rng(seed)
    every = [[f for f in some if f.bias is None] for op, some in by_operator().items() if op not in CRASHES]
    for _ in range(number):
        form = _one_of(rng, _one_of(rng, every))
        for _ in range(rng.integers(1, 3)):
            g = form.graph()
            result = g.type(g.outputs[0])
            following = [[f for f in some if f.types == (result,) and not f.after] for some in every]
            if any(following):
                next_one = _one_of(rng, _one_of(rng, [some for some in following if some]))
                form = replace(form, after=(*form.after, (next_one.op, next_one.attrs)))
        yield form


def _one_of(rng: np.random.Generator, options: Sequence[Any]) -> Any:
    return options[rng.integers(len(options))]
