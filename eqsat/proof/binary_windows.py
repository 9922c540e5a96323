"""Sums and extrema of terms over the windows of a command, for every family."""

from __future__ import annotations

from typing import Any

import numpy as np

from eqsat.device.core import windows
from eqsat.device.core.operands import Kernel
from eqsat.device.core.registers import IfmUpscaleMode
from eqsat.proof import extrema, linear
from eqsat.proof.functions import Ints
from eqsat.proof.steps import LARGEST, Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value
from eqsat.tensor.types import Array, Type


class Window:
    """A kernel that moves over terms [1, height, width, depth].

    out: (height, width) of the positions that it takes.
    Raises Undecidable if the input has no row or no column that it reads.
    """

    def __init__(
        self, t: Terms, x: Value, kernel: Kernel, out: tuple[int, int], upscale: IfmUpscaleMode, zero_point: int
    ) -> None:
        self.t, self.kernel, self.out, self.zero_point = t, kernel, out, zero_point
        self._numbers = windows.Window(kernel, out, upscale, zero_point, np.broadcast_to(0.0, x.shape))
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
        """Returns how many elements each window sees, [1, height, width, 1]. Raises DeviceError for one of none."""
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
