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
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, attrs_of


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

    def reshape(self, *shape: int) -> Term:
        return self("reshape", shape=shape)

    def transpose(self, *perms: int) -> Term:
        return self("transpose", perms=perms)

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


def chained(terms: Sequence[Term]) -> Term:
    """The sum, from the first to the last."""
    return chained([terms[0] + terms[1], *terms[2:]]) if len(terms) > 1 else terms[0]


def graph(inputs: str, made: Callable[..., Term | tuple[Term, ...]]) -> TensorGraph:
    """The graph of what a function makes of inputs, which are written name:dtype[shape]."""
    g, given = TensorGraph(), []
    for text in inputs.split():
        name, dtype, shape = re.fullmatch(r"(\w+):(\w+)\[([\d,]+)\]", text).groups()  # type: ignore[union-attr]
        given.append(Term(g, g.add_input(name, tuple(map(int, shape.split(","))), dtype)))
    found = made(*given)
    g.outputs = [t.n for t in (found if isinstance(found, tuple) else (found,))]
    g.output_names = [f"y{k}" for k in range(len(g.outputs))]
    return g
