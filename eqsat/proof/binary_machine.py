"""The machine of proofs: its values are terms, [1, height, width, depth] (`eqsat/device/core/machine.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from eqsat.device.core import arithmetic, numbers
from eqsat.device.core.machine import COMPARISONS
from eqsat.device.core.machine import UNLIMITED as UNLIMITED_OPERATORS
from eqsat.device.core.operands import Element, FeatureMap, Kernel, ResizedAxis
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.proof import extrema, indexing, linear, pointwise
from eqsat.proof.binary_memory import DTYPES, ShadowMemory
from eqsat.proof.functions import Ints
from eqsat.proof.steps import LARGEST, Step, Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value, merge, unique_rows
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.indexing import NEAREST
from eqsat.tensor.types import Array, Attrs, Shape, Type, attrs_of


class Window:
    """A kernel that moves over terms [1, height, width, depth].

    out: (height, width) of the positions that it takes.
    Raises Undecidable if the input has no row or no column that it reads.
    """

    def __init__(
        self, t: Terms, x: Value, kernel: Kernel, out: tuple[int, int], upscale: IfmUpscaleMode, zero_point: int
    ) -> None:
        self.t, self.kernel, self.out, self.zero_point = t, kernel, out, zero_point
        self._numbers = numbers.Window(kernel, out, upscale, zero_point, np.broadcast_to(0.0, x.shape))
        x = self._upscale(x, upscale)
        needed, (rows, columns) = kernel.reach(out), self._numbers.measure_input(*x.shape[1:3])
        if not rows or not columns:
            raise Undecidable("a window over nothing but padding")
        self.x = _crop(x, rows, columns)
        self.pad = kernel.top, needed[0] - kernel.top - rows, kernel.left, needed[1] - kernel.left - columns

    def _upscale(self, x: Value, mode: IfmUpscaleMode) -> Value:
        if mode == IfmUpscaleMode.NONE:
            return x
        _, height, width, depth = x.shape
        places = np.arange(x.elements).reshape(height, width, depth)
        if mode == IfmUpscaleMode.NEAREST:
            places = places.repeat(2, 0).repeat(2, 1)
        else:
            sparse = np.full((2 * height, 2 * width, depth), x.elements)
            sparse[::2, ::2] = places
            places, x = sparse, self.t.with_constant(x, self.zero_point)
        return x.take(places, (1, 2 * height, 2 * width, depth))

    @property
    def _attributes(self) -> dict[str, Any]:
        return {"pad": self.pad, "stride": self.kernel.stride, "dilation": self.kernel.dilation}

    def convolve(self, weights: Ints, depthwise: bool) -> Value:
        """Returns sums [1, height, width, out] of products by weights [out, height, width, in]. Raises Undecidable."""
        size, channel = weights.shape[0], None
        kernel = weights.astype(np.int64).transpose(1, 2, 3, 0)
        if depthwise:
            depth = self.x.shape[3]
            if depth not in (1, size):
                raise Undecidable(f"a depthwise convolution of {depth} channels to {size}")
            channel = np.arange(size) % depth
        check_room(self.t, self.x, 2 * int(np.abs(kernel).sum((0, 1, 2)).max()))
        out, bias = Type((1, *self.out, size), UNLIMITED), np.zeros(size, np.int64)
        return linear.convolve(self.t, self._attributes, self.x, kernel, channel, bias, self.zero_point, out)

    def sum(self) -> Value:
        """Returns the sum of each window for each channel. Raises Undecidable."""
        return self.convolve(np.ones((self.x.shape[3], self.kernel.height, self.kernel.width, 1), np.int64), True)

    def sum_over_depth(self) -> Value:
        """Returns the sum of each window over all channels. Raises Undecidable."""
        v = self.sum()
        check_room(self.t, v, v.shape[3])
        return linear.reduce_sum(self.t, {"axis": 3}, v, Type((*v.shape[:3], 1), UNLIMITED))

    def extremum(self, kind: str) -> Value:
        """Returns the maximum ("max") or minimum ("min") of each window that is not dilated, without the zero point."""
        if self.kernel.dilation != (1, 1):
            raise Undecidable("an extremum of a dilated window")
        x = self.t.step(self.x, [("affine", 1, -self.zero_point)], UNLIMITED)
        attributes = {**self._attributes, "kernel": (self.kernel.height, self.kernel.width)}
        return extrema.pool_maximum(self.t, attributes, x, Type((1, *self.out, x.shape[3]), UNLIMITED), kind)

    def first_largest(self) -> Value:
        """Returns the index of the first maximum of each window, which neither is upscaled nor reaches the padding."""
        k, t, every = self.kernel, self.t, np.arange(self.x.elements).reshape(self.x.shape)
        rows, columns = (
            np.arange(n) * s + np.arange(size)[:, None] * d
            for n, s, size, d in zip(self.out, k.stride, (k.height, k.width), k.dilation, strict=True)
        )
        places = np.stack([every[:, r][:, :, x].reshape(-1) for r in rows for x in columns])
        ordered = t.field.digest(t.symbol("argmax"), t.lanes(self.x)[:, places])
        return t.root(ordered, (1, *self.out, self.x.shape[3]), UNLIMITED, (0, len(places) - 1))

    def counts(self) -> Array:
        """Returns how many elements each window sees, [1, height, width, 1]. Raises DeviceError if one sees none."""
        return self._numbers.counts()


def _crop(x: Value, rows: int, columns: int) -> Value:
    if x.shape[1:3] == (rows, columns):
        return x
    places = np.arange(x.elements).reshape(x.shape)[:, :rows, :columns]
    return x.take(places, places.shape)


def check_room(t: Terms, v: Value, factor: int) -> None:
    """Raises Undecidable if sums of products of elements with `factor` may leave int64."""
    if largest(t, v) * factor >= LARGEST:
        raise Undecidable("sums of products that 64 bits have no room for")


def largest(t: Terms, v: Value) -> int:
    """Returns the largest absolute value, at least 1."""
    low, high = t.limits(v)
    return max(-int(low.min()), int(high.max()), 1)


_WORD = Element(True, 32)
#: Shifts for whose rounding terms 64 bits have room.
_SHIFTS = 62
#: The term that double rounding adds or subtracts first.
_TWICE = 1 << 30
#: The rounding term of a variant: independent of the sign, that of double rounding, or another.
_PLAIN, _DOUBLE, _OTHER = 0, 1, 2


class TermMachine(ShadowMemory):
    """Memory with terms, and the arithmetic on them. Its methods are those of `Machine`, and raise Undecidable, too."""

    def number(self, value: int) -> Value:
        return self.terms.constant(np.full((1, 1, 1, 1), value), "INT32")

    def zeros(self, shape: Shape) -> Value:
        return self.terms.constant(np.zeros((1, *shape), np.int64), UNLIMITED)

    def operand(self, v: Value, zero_point: int, op: str) -> Value:
        wide = op in UNLIMITED_OPERATORS
        v = self.terms.step(v, [("affine", 1, -zero_point)], UNLIMITED if wide else "INT32")
        if not wide and self.terms.outside(v, *_WORD.limits).any():
            raise Undecidable("an operand that 32 bits have no room for")
        return v

    def window(self, m: FeatureMap, kernel: Kernel, out: tuple[int, int], upscale: IfmUpscaleMode) -> Window:
        return Window(self.terms, self.read(m), kernel, out, upscale, m.zero_point)

    def product(self, first: FeatureMap, second: FeatureMap, shape: Shape) -> Value:
        if max(first.element.bits, second.element.bits) > 16:
            raise Undecidable("a product of matrices of 32 bits")
        x, y = self.read(first), self.read(second)
        height, width, depth = shape
        rows = np.arange(x.elements).reshape(x.shape)[0, :height, :width].reshape(1, height * width, -1)
        columns = np.arange(y.elements).reshape(y.shape)[:, 0].transpose(0, 2, 1)
        zero_points = {"in_zp": (first.zero_point,), "w_zp": (second.zero_point,)}
        check_room(self.terms, x, 2 * x.shape[3] * largest(self.terms, y))
        operands = x.take(rows, rows.shape), y.take(columns, columns.shape)
        v = linear.matmul(self.terms, zero_points, operands, Type((1, height * width, depth), UNLIMITED))
        return v.take(np.arange(v.elements), (1, *shape))

    def resize(self, m: FeatureMap, bilinear: bool, y: ResizedAxis, x: ResizedAxis, shape: Shape) -> Value:
        t, out = self.terms, Type((1, *shape), UNLIMITED)
        v = t.step(self.read(m), [("affine", 1, -m.zero_point)], UNLIMITED)
        scale, offset = (y[2], y[1], x[2], x[1]), (y[0], x[0])
        if bilinear:
            return linear.interpolate(t, {"scale": scale, "offset": offset}, v, out)
        return indexing.move(t, "resize", attrs_of({"scale": scale, "offset": offset, "mode": NEAREST}), [v], out)

    def apply(self, op: str, attrs: Attrs, operands: Sequence[Value], shape: Shape) -> Value:
        t = self.terms
        if op not in OPS:
            raise Undecidable(f"there is no form for {op.upper()}")
        dtype = "BOOL" if op in COMPARISONS else UNLIMITED if op in UNLIMITED_OPERATORS else "INT32"
        out = Type((1, *shape), dtype)
        if op == "mul":
            check_room(t, operands[0], largest(t, operands[1]))
        if op == "abs" and largest(t, operands[0]) >= 1 << 31:
            raise Undecidable("an absolute value that 32 bits have no room for")
        if len(operands) == 1:
            return pointwise.unary(t, op, attrs, operands[0].broadcast(out.shape), out)
        return pointwise.binary(t, op, attrs, operands, out)

    def plus(self, v: Value, summand: Array | int) -> Value:
        if np.ndim(summand) == 0:
            return self.terms.step(v, [("affine", 1, summand)], UNLIMITED)
        (summands, _), variant = _variants(v, summand, 0)
        return self.terms.step(v, [("affine", 1, summands)], UNLIMITED, variant)

    def times(self, v: Value, factor: int) -> Value:
        return self.terms.step(v, [("affine", factor, 0)], UNLIMITED)

    def scale(
        self, v: Value, multiplier: Array | int, shift: Array | int, rounding: Rounding, double: int = 0
    ) -> Value:
        t, (rows, variant) = self.terms, _variants(v, multiplier, shift)
        multiplier, shift = rows
        if shift.max() > _SHIFTS:
            raise Undecidable(f"a shift by {shift.max()}")
        positive, negative = arithmetic.rounding_terms(shift, rounding, double)
        steps: dict[int, Step] = {
            _PLAIN: ("scale", multiplier, positive, shift),
            _DOUBLE: ("double", multiplier, shift),
        }

        def rounded(x: Ints, row: Ints) -> Ints:
            added = np.where(x >= 0, positive[row], negative[row])
            return np.asarray(arithmetic.multiply_and_shift(x, multiplier[row], shift[row], added))

        def of_kind(kind: int, v: Value, variant: Ints) -> Value:
            if kind in steps:
                return t.step(v, [steps[kind]], UNLIMITED, variant)
            done = t.tabulate(v, rounded, UNLIMITED, variant)
            if done is None:
                raise Undecidable("an accumulator of which the sign decides how it is rounded")
            return done

        half = arithmetic.halves(shift)
        twice = (positive - half == _TWICE) & (negative - half == -_TWICE)
        kinds = np.where(positive == negative, _PLAIN, np.where(twice, _DOUBLE, _OTHER))[variant]
        kinds = np.where((kinds == _OTHER) & (t.limits(v)[0] >= 0), _PLAIN, kinds)
        if len(different := np.unique(kinds)) == 1:
            return of_kind(int(different[0]), v, variant)
        v, parts = t.plain(v), []
        for kind in different.tolist():
            mask = kinds == kind
            parts.append((mask, of_kind(kind, v.take(np.flatnonzero(mask)), variant[mask])))
        return merge(v.shape, UNLIMITED, parts)

    def mean(self, v: Value, counts: Array) -> Value:
        (numbers, _), variant = _variants(v, counts, 0)
        return self.terms.step(v, [("mean", numbers)], UNLIMITED, variant)

    def recognize(self, v: Value) -> Value:
        return self.terms.recognize(v)

    def hold(self, v: Value, bits: int) -> Value:
        limit = 1 << bits - 1
        self.terms.require(v, -limit, limit - 1)
        return v

    def clip(self, v: Value, element: Element, low: int, high: int) -> Value:
        least, most = element.limits
        if low < least or high > most:
            raise Undecidable(f"a clamp of {element.dtype} to {low} to {high}")
        dtype = DTYPES[element.bytes] if element.signed else UNLIMITED
        if element.bits <= 16:  # by what the type has room for, as graphs do, and then by the limits
            v = self.terms.step(v, [("clip", least, most)], dtype)
        return self.terms.step(v, [("clip", low, high)], dtype)

    def look_up(self, v: Value, chosen: Element, result: Element, table: bytes) -> Value:
        if self.terms.outside(v, *chosen.limits).any():
            raise Undecidable(f"a table of what {chosen.dtype} has no room for")
        dtype = DTYPES[result.bytes]
        done = self.terms.tabulate(v, lambda x, _: arithmetic.look_up(x, chosen, result, table), dtype)
        if done is None:
            raise Undecidable("a table of too many values")
        return done

    def fitting(self, v: Value, element: Element) -> Value:
        # Only beyond 32 bits does TOSA leave open what a graph computes: only such a requirement may equal a graph's.
        self.terms.require(v, *element.limits, *(() if element == _WORD else ("fits",)))
        return self.terms.step(v, [], DTYPES[element.bytes]) if element.signed else v

    def turn(self, v: Value, flipped: int | None, axes: tuple[int, ...]) -> Value:
        places = np.arange(v.elements).reshape(v.shape)
        places = (places if flipped is None else np.flip(places, 1 + flipped)).transpose(0, *(1 + k for k in axes))
        return v.take(places, places.shape)


def _variants(v: Value, one: Array | int, other: Array | int) -> tuple[tuple[Ints, Ints], Ints]:
    """Returns the distinct pairs of two parameters, which broadcast to `v`, and the number of each element's pair."""
    one, other = np.broadcast_arrays(np.asarray(one, np.int64), np.asarray(other, np.int64))
    rows, index = unique_rows(one.reshape(-1), other.reshape(-1))
    return (rows[:, 0], rows[:, 1]), np.broadcast_to(index.reshape(one.shape), v.shape).reshape(-1)
