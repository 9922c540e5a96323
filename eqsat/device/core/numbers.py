"""The machine of the functional model: its values are the numbers of many samples, [samples, height, width, depth]."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from eqsat.device.core import arithmetic
from eqsat.device.core.commands import ResizedAxis
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.machine import UNLIMITED
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.operands import Element, FeatureMap, Kernel
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.device.core.windows import Window
from eqsat.target.family import HWC
from eqsat.tensor.ops import OPS, evaluate_defined
from eqsat.tensor.types import Array, Attrs, Type, Unpredictable

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
