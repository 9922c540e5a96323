"""A notation for small graphs: operators of Python and methods stand for operators of TOSA.

>>> graph("x:INT8[2] y:INT8[2]", lambda x, y: (x.wide() + y.wide()).rescale("INT8", 1 << 30, 31)).op_counts()
{'add': 1, 'cast': 2, 'rescale': 1}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, DType, Type, attrs_of


def _of_two(op: str) -> Callable[[Term, Term | int], Term]:
    return lambda a, b: a(op, b)


@dataclass(frozen=True)
class Term:
    """A node of a graph that is being built."""

    g: TensorGraph
    n: int

    @property
    def dtype(self) -> str:
        return self.g.nodes[self.n].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.g.nodes[self.n].shape

    def const(self, values: Any, dtype: str = "", shape: tuple[int, ...] = ()) -> Term:
        """A constant, by default one number of this dtype and rank."""
        shape = shape or (np.shape(values) if np.ndim(values) else (1,) * len(self.shape))
        return replace(self, n=self.g.add_const(np.reshape(values, shape), dtype or self.dtype))

    def input(self, shape: Sequence[int], dtype: str = "INT8") -> Term:
        """Another input."""
        return replace(self, n=self.g.add_input(f"in{len(self.g.nodes)}", tuple(shape), dtype))

    def made(self, op: str, attrs: Attrs, *others: Term | int) -> Term:
        more = [o if isinstance(o, Term) else self.const(o) for o in others]
        return replace(self, n=self.g.add_with(op, [self.n, *(o.n for o in more)], attrs))

    def __call__(self, op: str, *others: Term | int, **attrs: Any) -> Term:
        return self.made(op, attrs_of(attrs), *others)

    # ---- of one operand

    def cast(self, *dtypes: str) -> Term:
        return self("cast", dtype=dtypes[0]).cast(*dtypes[1:]) if dtypes else self

    def wide(self) -> Term:
        return self if self.dtype == "INT32" else self.cast("INT32")

    def rescale(self, dtype: str, multiplier: Any = None, shift: Any = None, **more: Any) -> Term:
        return self.made("rescale", makers.rescale(dtype, multiplier, shift, **more))

    def clamp(self, low: int | None = None, high: int | None = None) -> Term:
        """CLAMP, which is written as MAXIMUM and MINIMUM in INT32."""
        if self.dtype == "INT32":
            return self.max(low).min(high)  # type: ignore[arg-type]
        return self.made("clamp", makers.clamp(self.dtype, low, high))

    def table(self, entries: Sequence[int]) -> Term:
        return self.made("table", makers.table(entries))

    def negate(self, in_zp: int = 0, out_zp: int = 0) -> Term:
        return self("negate", in_zp=(in_zp,), out_zp=(out_zp,))

    def __invert__(self) -> Term:
        return self("logical_not" if self.dtype == "BOOL" else "bitwise_not")

    # ---- of several

    __add__ = _of_two("add")
    __sub__ = _of_two("sub")
    __and__ = _of_two("bitwise_and")
    __or__ = _of_two("bitwise_or")
    __xor__ = _of_two("bitwise_xor")
    __gt__ = _of_two("greater")
    __ge__ = _of_two("greater_equal")
    equal = _of_two("equal")
    div = _of_two("intdiv")
    lsr = _of_two("logical_right_shift")
    lsl = _of_two("logical_left_shift")

    def mul(self, other: Term | int, shift: int = 0) -> Term:
        return self.made("mul", makers.mul(shift), other)

    __mul__ = mul

    def max(self, other: Term | int) -> Term:
        return self.made("maximum", makers.extremum(), other)

    def min(self, other: Term | int) -> Term:
        return self.made("minimum", makers.extremum(), other)

    def asr(self, amount: Term | int, rounds: bool = False) -> Term:
        return self("arithmetic_right_shift", amount, round=rounds)

    # ---- of several elements

    def reduce(self, kind: str, axis: int = 0) -> Term:
        attrs = makers.extremum(axis) if kind in ("max", "min") else attrs_of({"axis": axis})
        return self.made(f"reduce_{kind}", attrs)

    def argmax(self, axis: int = 0) -> Term:
        return self.made("argmax", makers.extremum(axis))

    def reverse(self, axis: int = 0) -> Term:
        return self("reverse", axis=axis)

    def part(self, start: int, size: int = 1, axis: int = 0) -> Term:
        starts, sizes = [0] * len(self.shape), list(self.shape)
        starts[axis], sizes[axis] = start, size
        return self("slice", start=tuple(starts), size=tuple(sizes))

    def parts(self) -> list[Term]:
        return [self.part(k) for k in range(self.shape[0])]

    def rows(self, start: int, size: int = 1) -> Term:
        return self.part(start, size, 1)

    def concat(self, *others: Term | int, axis: int = 0) -> Term:
        return self("concat", *others, axis=axis)

    def slice(self, start: Sequence[int], size: Sequence[int]) -> Term:
        return self("slice", start=start, size=size)

    def reshape(self, *shape: int) -> Term:
        return self("reshape", shape=shape)

    def transpose(self, *perms: int) -> Term:
        return self("transpose", perms=perms)

    def nchw(self) -> Term:
        """An image of NHWC in NCHW."""
        return self.transpose(0, 3, 1, 2)

    def nhwc(self) -> Term:
        """An image of NCHW in NHWC."""
        return self.transpose(0, 2, 3, 1)

    def pad(self, pads: Sequence[int], value: int) -> Term:
        return self.made("pad", makers.pad(pads, value))

    def fits(self, bits: int) -> Term:
        """Sums of so many bits as INT8, which they about fill."""
        return self.rescale("INT8", 1 << 30, 23 + bits)

    def shown(self) -> Term:
        """INT48 sums as INT32."""
        return self.rescale("INT32", scale32=False) if self.dtype == "INT48" else self

    def conv(self, weights: Any, bias: Any = 0, *, op: str = "conv2d", **more: Any) -> Term:
        """bias: one of all channels, or one each."""
        sums = DType.of(self.dtype).accumulator
        attrs = (makers.transpose_conv if op[0] == "t" else makers.conv)(self.dtype, **more)
        return self.made(op, attrs, self.const(weights, "INT8"), self.const(np.atleast_1d(bias), sums)).shown()

    def matmul(self, other: Term, zero_point: int = 0, other_zero_point: int = 0) -> Term:
        return self.made("matmul", makers.matmul(zero_point, other_zero_point), other).shown()

    def average(self, *kernel: int, **more: Any) -> Term:
        return self.made("avg_pool2d", makers.avg_pool(kernel, **more))

    def largest(self, *kernel: int, **more: Any) -> Term:
        return self.made("max_pool2d", makers.max_pool(kernel, **more))

    def framed(self, value: int) -> Term:
        """One row and column of a value in front of an image."""
        return self.pad((0, 0, 1, 0, 1, 0, 0, 0), value)

    def resize(self, mode: int, scale: Sequence[int], offset: Sequence[int], border: Sequence[int]) -> Term:
        return self("resize", mode=mode, scale=scale, offset=offset, border=border).shown()

    # ---- of networks that ExecuTorch quantizes

    def layer(self, channels: int, kernel: int = 1, *, stride: int = 1, dilation: int = 1, seed: int = 0) -> Term:
        """A convolution of INT8 by random weights, with "same" padding for stride 1, and its RESCALE per channel."""
        rng, pad = np.random.default_rng(seed), (kernel - 1) // 2 * dilation
        weights = rng.integers(-127, 128, (channels, kernel, kernel, self.shape[-1]))
        window = {"pad": (pad,) * 4, "stride": (stride,) * 2, "dilation": (dilation,) * 2}
        sums = self.conv(weights, rng.integers(-500, 500, channels), in_zp=-3, **window)
        scales = rng.integers(1 << 30, (1 << 31) - 1, channels)
        return sums.rescale("INT8", scales, [38] * channels, out_zp=-5, per_channel=channels > 1)

    def plus(self, other: Term) -> Term:
        """An addition of INT8: two RESCALEs to INT32, ADD, RESCALE."""
        one, two = (x.rescale("INT32", shift=20, in_zp=zp) for x, zp in ((self, -3), (other, 4)))
        return (one + two).rescale("INT8", shift=41, out_zp=-7)

    def relu(self, zero: int = -128) -> Term:
        return self.clamp(zero, 127)

    def opaque(
        self, code: str, results: Sequence[Type], *others: Term, shapes: Sequence[Any] = (), **fields: Any
    ) -> Term:
        """An operator that the op table does not have; shapes: its shape operands, None standing for a tensor."""
        attrs = {"tosa": code, "fields": attrs_of(fields), "shape_operands": shapes or (None,) * (1 + len(others))}
        return self("opaque", *others, **attrs, shape=results[0].shape, dtype=results[0].dtype, results=tuple(results))


def chained(terms: Sequence[Term]) -> Term:
    """The sum, from the first to the last."""
    return chained([terms[0] + terms[1], *terms[2:]]) if len(terms) > 1 else terms[0]


def inputs(text: str) -> list[Term]:
    """Inputs of a new graph, which are written name:dtype[shape]."""
    g, found = TensorGraph(), re.findall(r"(\w+):(\w+)\[([\d, ]+)\]", text)
    assert len(found) == text.count(":"), text
    return [Term(g, g.add_input(n, tuple(map(int, shape.split(","))), dtype)) for n, dtype, shape in found]


def outputs(*terms: Term) -> TensorGraph:
    """The graph whose outputs these are."""
    return finish(terms[0].g, *(t.n for t in terms))


def finish(g: TensorGraph, *nodes: int) -> TensorGraph:
    g.outputs, g.output_names = list(nodes), [f"y{k}" for k in range(len(nodes))]
    return g


def graph(text: str, made: Callable[..., Term | tuple[Term, ...]]) -> TensorGraph:
    """The graph of what a function makes of inputs (`inputs`)."""
    found = made(*inputs(text))
    return outputs(*(found if isinstance(found, tuple) else (found,)))
