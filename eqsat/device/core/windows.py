"""Windows over an input, and the sums of products over them, for every family."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import Kernel
from eqsat.device.core.registers import IfmUpscaleMode
from eqsat.tensor.types import Array

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
        """Returns how many elements each window sees, [1, height, width, 1]: zeros between elements are none.

        Raises DeviceError for a window that sees none.
        """
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
        """Returns the maximum ("max") or minimum ("min") of each window, int64.

        Raises DeviceError for a window over nothing but padding.
        """
        values = self._combine(*((np.maximum, -np.inf) if kind == "max" else (np.minimum, np.inf)))
        if np.isinf(values).any():
            raise DeviceError(f"{kind.upper()} over nothing but padding")
        return values.astype(np.int64)

    def first_largest(self) -> Array:
        """Returns the index of the first maximum of each window, which is not padded or upscaled, int64."""
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
        """Accumulators without biases, int64 [samples, height, width, out].

        weights: [out, height, width, in].
        Computed in float64, in which sums below 2**53 are exact.
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
