"""The machine of the functional model: its values are the numbers of many samples, [samples, height, width, depth]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eqsat.device.core import arithmetic
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.machine import UNLIMITED
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.operands import Element, FeatureMap, Kernel, ResizedAxis
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.target.family import HWC
from eqsat.tensor.ops import OPS, evaluate_defined
from eqsat.tensor.types import Array, Attrs, Type, Unpredictable

#: Most elements of the windows in one matrix product.
_CHUNK = 1 << 22


@dataclass(frozen=True, slots=True)
class Window:
    """A kernel that moves over an upscaled input without its zero point (`machine.Window`).

    out: (height, width) of the positions that it takes.
    x: the input, [samples, height, width, depth].
    """

    kernel: Kernel
    out: tuple[int, int]
    upscale: IfmUpscaleMode
    zero_point: int
    x: Array

    def pad(self, fill: float) -> Array:
        """Returns all that is read, padded with `fill`: float64 [samples, height, width, depth]."""
        values = self.x.astype(np.float64) - self.zero_point
        if self.upscale == IfmUpscaleMode.NEAREST:
            values = values.repeat(2, 1).repeat(2, 2)
        elif self.upscale == IfmUpscaleMode.ZEROS:
            sparse = np.zeros((values.shape[0], 2 * values.shape[1], 2 * values.shape[2], values.shape[3]))
            sparse[:, ::2, ::2] = values
            values = sparse
        kernel = self.kernel
        (height, width), (rows, columns) = kernel.reach(self.out), self.measure_input(values.shape[1], values.shape[2])
        if values.shape[1:3] == (height, width) == (rows, columns):
            return values
        result = np.full((values.shape[0], height, width, values.shape[3]), fill)
        result[:, kernel.top : kernel.top + rows, kernel.left : kernel.left + columns] = values[:, :rows, :columns]
        return result

    def measure_input(self, height: int, width: int) -> tuple[int, int]:
        """Returns (height, width) of what is read of an upscaled input; the rest is padding."""
        k = self.kernel
        rows, columns = k.reach(self.out)
        return max(0, min(height, rows - k.top - k.bottom)), max(0, min(width, columns - k.left - k.right))

    def counts(self) -> Array:
        """Returns how many elements each window sees, zeros between them aside. Raises DeviceError if one sees none."""
        seen = replace(self, zero_point=0, x=np.ones((1, *self.x.shape[1:3], 1))).sum()
        if (seen == 0).any():
            raise DeviceError("an average over nothing but padding")
        return seen

    def _taps(self, x: Array, axis: int) -> list[Array]:
        """Returns values at all output positions, for each kernel element along an axis (1 or 2)."""
        n, stride, dilation = self.out[axis - 1], self.kernel.stride[axis - 1], self.kernel.dilation[axis - 1]
        size = (self.kernel.height, self.kernel.width)[axis - 1]
        index = [slice(None)] * 4
        seen = []
        for k in range(size):
            index[axis] = slice(k * dilation, k * dilation + (n - 1) * stride + 1, stride)
            seen.append(x[tuple(index)])
        return seen

    def sum(self) -> Array:
        """Returns the sum of each window for each channel, int64 [samples, height, width, depth]."""
        return self._combine(np.add, 0.0).astype(np.int64)

    def sum_over_depth(self) -> Array:
        """Returns the sum of each window over all channels, int64 [samples, height, width, 1]."""
        return self._combine(np.add, 0.0).sum(-1, keepdims=True).astype(np.int64)

    def extremum(self, kind: str) -> Array:
        """Returns the maximum ("max") or minimum ("min") of each window, int64. Raises DeviceError for only padding."""
        values = self._combine(*((np.maximum, -np.inf) if kind == "max" else (np.minimum, np.inf)))
        if np.isinf(values).any():
            raise DeviceError(f"{kind.upper()} over nothing but padding")
        return values.astype(np.int64)

    def first_largest(self) -> Array:
        """Returns the index of the first maximum of each window, int64."""
        seen = [tap for row in self._taps(self.x.astype(np.int64), 1) for tap in self._taps(row, 2)]
        return np.argmax(np.stack(seen), axis=0).astype(np.int64)

    def _combine(self, combine: np.ufunc, fill: float) -> Array:
        """Returns `combine` over the elements of each window, as float64."""
        values = self.pad(fill)
        for axis in (1, 2):
            seen = self._taps(values, axis)
            values = seen[0].copy() if len(seen) > 1 else seen[0]
            for more in seen[1:]:
                combine(values, more, out=values)
        return values

    def convolve(self, weights: Array, depthwise: bool) -> Array:
        """Returns the sums of products with weights [out, height, width, in], int64 [samples, height, width, out].

        They are computed in float64, in which sums below 2**53 are exact.
        """
        values = self.pad(0.0)
        kernel = weights.astype(np.float64)
        if depthwise:
            total = np.zeros((values.shape[0], *self.out, kernel.shape[0]))
            for row, line in enumerate(self._taps(values, 1)):
                for column, seen in enumerate(self._taps(line, 2)):
                    total += seen * kernel[:, row, column, 0]
            return total.astype(np.int64)
        matrix = kernel.transpose(1, 2, 3, 0).reshape(-1, kernel.shape[0])
        if self.kernel.height == self.kernel.width == 1:
            sampled = values[:, :: self.kernel.stride[0], :: self.kernel.stride[1]][:, : self.out[0], : self.out[1]]
            return (sampled @ matrix).astype(np.int64)
        return self._by_windows(values, matrix)

    def _by_windows(self, values: Array, matrix: Array) -> Array:
        s, d, out = self.kernel.stride, self.kernel.dilation, self.out
        span = (self.kernel.height - 1) * d[0] + 1, (self.kernel.width - 1) * d[1] + 1
        windows = np.lib.stride_tricks.sliding_window_view(values, span, axis=(1, 2))  # type: ignore[call-overload]
        windows = windows[:, :: s[0], :: s[1], :, :: d[0], :: d[1]].transpose(0, 1, 2, 4, 5, 3)[:, : out[0], : out[1]]
        total = np.empty((values.shape[0], *out, matrix.shape[1]), np.int64)
        step = max(1, _CHUNK // (matrix.shape[0] * out[1]))
        for sample in range(values.shape[0]):
            for row in range(0, out[0], step):
                part = windows[sample, row : row + step].reshape(-1, matrix.shape[0])
                total[sample, row : row + step] = (part @ matrix).reshape(-1, out[1], matrix.shape[1])
        return total


_WORD = Element(True, 32)
#: Operators that TOSA does not have.
_BESIDE_TOSA: Mapping[str, Callable[[Array, Array], Array]] = {
    "cmp_ne": np.not_equal,
    "and_not": lambda a, b: a & ~b,
}


class NumberMachine(MemoryMap):
    """Memory with numbers, and the arithmetic on them in int64. Its methods are those of `Machine`."""

    writer = -1

    def __init__(self, samples: int, sizes: dict[int, int], shared: int) -> None:
        super().__init__(samples, sizes, shared)
        self.internal, self.sources = shared, set[int]()

    def move(self, source: FeatureMap, destination: FeatureMap) -> None:
        self.write(destination, self.read(source))

    def number(self, value: int) -> Array:
        return np.full((1, 1, 1, 1), value, np.int64)

    def zeros(self, shape: HWC) -> Array:
        return np.zeros((self.samples, *shape), np.int64)

    def operand(self, v: Array, zero_point: int, op: str) -> Array:
        return v.astype(np.int64) - zero_point

    def window(self, m: FeatureMap, kernel: Kernel, out: tuple[int, int], upscale: IfmUpscaleMode) -> Window:
        return Window(kernel, out, upscale, m.zero_point, self.read(m))

    def product(self, first: FeatureMap, second: FeatureMap, shape: HWC) -> Array:
        x, y = (self.read(m).astype(np.float64) - m.zero_point for m in (first, second))
        rows = x[:, : shape[0], : shape[1]]
        return np.einsum("nhwk,nok->nhwo", rows, y[:, 0], optimize=True).astype(np.int64)

    def resize(self, m: FeatureMap, bilinear: bool, y: ResizedAxis, x: ResizedAxis, shape: HWC) -> Array:
        values = self.read(m).astype(np.int64) - m.zero_point
        for axis, (offset, step, scale) in ((1, y), (2, x)):
            first, rest = np.divmod(offset + np.arange(shape[axis - 1]) * step, scale)
            near, far = (values.take(np.clip(k, 0, values.shape[axis] - 1), axis) for k in (first, first + 1))
            weight = rest.reshape([-1 if k == axis else 1 for k in range(4)])
            values = near * (scale - weight) + far * weight if bilinear else np.where(2 * weight >= scale, far, near)
        return values

    def apply(self, op: str, attrs: Attrs, operands: Sequence[Array], shape: HWC) -> Array:
        out = Type(shape, "INT32")
        if op in _BESIDE_TOSA:
            result = _BESIDE_TOSA[op](*operands)
        elif op in UNLIMITED:
            result = OPS[op].integer(dict(attrs), operands, out)  # type: ignore[operator]
        else:
            words = [arithmetic.fitting(x, _WORD).astype(np.int32) for x in operands]
            try:
                result = evaluate_defined(op, attrs, words, [Type(x.shape, "INT32") for x in words], out)
            except Unpredictable as e:
                raise DeviceError(f"the model does not know what TOSA leaves open: {e}") from e
        return np.broadcast_to(np.asarray(result).astype(np.int64, copy=False), (self.samples, *shape))

    def plus(self, v: Array, summand: Array | int) -> Array:
        return v + summand

    def times(self, v: Array, factor: int) -> Array:
        return v * factor

    def scale(
        self, v: Array, multiplier: Array | int, shift: Array | int, rounding: Rounding, double: int = 0
    ) -> Array:
        return arithmetic.scale(v, multiplier, shift, rounding, double)

    def mean(self, v: Array, counts: Array) -> Array:
        return np.asarray(np.sign(v) * ((2 * np.abs(v) + counts) // (2 * counts)))

    def recognize(self, v: Array) -> Array:
        return v

    def hold(self, v: Array, bits: int) -> Array:
        limit = 1 << bits - 1
        if v.size and not (-limit <= v.min() and v.max() < limit):
            raise DeviceFault(f"sums that accumulators of {bits} bits have no room for")
        return v

    def clip(self, v: Array, element: Element, low: int, high: int) -> Array:
        return np.asarray(np.clip(v, low, high))

    def look_up(self, v: Array, chosen: Element, result: Element, table: bytes) -> Array:
        return arithmetic.look_up(arithmetic.fitting(v, chosen), chosen, result, table)

    def fitting(self, v: Array, element: Element) -> Array:
        return arithmetic.fitting(v, element).astype(element.dtype)

    def turn(self, v: Array, flipped: int | None, axes: tuple[int, ...]) -> Array:
        v = v if flipped is None else np.flip(v, 1 + flipped)
        return v.transpose(0, *(1 + k for k in axes))
