"""Accumulators of Ethos-U85's operations before scaling: int64 [samples, height, width, depth]."""

from __future__ import annotations

import numpy as np

from eqsat.device.core.arithmetic import BINARY, UNARY, bit_counts, scaled
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import SAME, FixedPointScale
from eqsat.device.core.registers import IfmUpscaleMode, Rounding
from eqsat.device.core.windows import Window
from eqsat.device.ethos_u85.arithmetic import scaled_input
from eqsat.device.ethos_u85.commands import Convolution, Elementwise, Pooling, Resize, ResizeAxis
from eqsat.device.ethos_u85.registers import ElementwiseMode, PoolingMode, ResizeMode
from eqsat.tensor.types import Array

_WORD = 0xFFFFFFFF
#: Modes that scale their operands first.
SCALED = (ElementwiseMode.ADD, ElementwiseMode.SUB, ElementwiseMode.MIN, ElementwiseMode.MAX)
#: Bits by which a resized value, or the index of a maximum, is shifted up in an accumulator.
ABOVE = 16


def window(c: Convolution | Pooling) -> Window:
    return Window(c.kernel, c.output.shape[:2], c.upscale, c.ifm.zero_point)


def pooled(c: Pooling, x: Array) -> Array:
    """Returns the accumulators of a pooling. Raises DeviceError."""
    w = window(c)
    match c.mode:
        case PoolingMode.MAX | PoolingMode.MIN:
            largest = c.mode == PoolingMode.MAX
            values = w.combined(x, np.maximum if largest else np.minimum, -np.inf if largest else np.inf)
            if np.isinf(values).any():
                raise DeviceError(f"{c.mode.name} over nothing but padding")
        case PoolingMode.SUM:
            values = w.combined(x, np.add, 0.0)
        case PoolingMode.REDUCE_SUM:
            values = w.combined(x, np.add, 0.0).sum(-1, keepdims=True)
        case PoolingMode.AVERAGE:
            if c.output.scale != SAME:
                raise DeviceError("the model does not know an average that is scaled")
            return _averaged(w, x)
        case PoolingMode.ARGMAX_X | PoolingMode.ARGMAX_Y:
            return _first_largest(c, x)
        case PoolingMode.NONE:
            return np.zeros((x.shape[0], *c.output.shape), np.int64)
    return values.astype(np.int64)


def _averaged(w: Window, x: Array) -> Array:
    """Returns the mean of the elements that a window sees, a half rounded away from zero as by TOSA's reciprocals."""
    sums = w.combined(x, np.add, 0.0).astype(np.int64)
    counts = w.counts(*x.shape[1:3])
    return np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts))


def _first_largest(c: Pooling, x: Array) -> Array:
    """Returns the index of each window's first maximum, in the upper bits: Vela shifts the value below away."""
    check_argmax(c)
    axis = 2 if c.mode == PoolingMode.ARGMAX_X else 1
    seen = window(c).taps(x.astype(np.int64), axis)
    return np.argmax(np.stack(seen), axis=0).astype(np.int64) << ABOVE


def check_argmax(c: Pooling) -> None:
    """Raises DeviceError for an ARGMAX that the model does not know."""
    if c.output.scale != FixedPointScale(1, ABOVE) or c.output.rounding != Rounding.TRUNCATE_TO_LOWER:
        raise DeviceError(f"the model does not know {c.mode.name} but with its value shifted away")
    other = 0 if c.mode == PoolingMode.ARGMAX_X else 1
    across = (c.kernel.height, c.kernel.width)[other], c.kernel.stride[other]
    if c.kernel.padded or c.upscale != IfmUpscaleMode.NONE or across != (1, 1):
        raise DeviceError(f"the model does not know {c.mode.name} over a window in both directions, padded or upscaled")


def combined(c: Elementwise, operands: list[Array]) -> Array:
    """Returns the accumulators of an elementwise operation.

    operands: int64, without their zero points.
    Raises DeviceError.
    """
    if c.mode in SCALED:
        operands = [scaled_input(x, how) for x, how in zip(operands, c.inputs, strict=True)]
    elif any(how.scale != SAME for how in c.inputs):
        raise DeviceError(f"the model does not know {c.mode.name} with scaled operands")
    if len(operands) == 2:
        return _binary(c, *operands)
    if c.mode.name not in UNARY:
        raise DeviceError(f"the model does not know {c.mode.name}")
    return UNARY[c.mode.name](operands[0])


_COMPARISONS: dict[ElementwiseMode, np.ufunc] = {
    ElementwiseMode.CMP_EQ: np.equal,
    ElementwiseMode.CMP_NE: np.not_equal,
    ElementwiseMode.CMP_GE: np.greater_equal,
    ElementwiseMode.CMP_GT: np.greater,
}


def _binary(c: Elementwise, a: Array, b: Array) -> Array:
    if c.mode.name in BINARY:
        return np.asarray(BINARY[c.mode.name](a, b))
    if c.mode in _COMPARISONS:
        # a mask of all bits: Vela builds SELECT from bitwise operations, REDUCE_ALL from a maximum
        return -_COMPARISONS[c.mode](a, b).astype(np.int64)
    match c.mode:
        case ElementwiseMode.AND_NOT:
            return a & ~b
        case ElementwiseMode.SHL:
            return (a << bit_counts(b)).astype(np.int32).astype(np.int64)
        case ElementwiseMode.LSR:
            return ((a & _WORD) >> bit_counts(b)).astype(np.int32).astype(np.int64)
        case ElementwiseMode.SHR:
            # the two roundings that Vela sets (`graphir_optimiser.cpp`, ConvertAttributes)
            if c.output.rounding not in (Rounding.TRUNCATE_TO_LOWER, Rounding.NATURAL):
                raise DeviceError(f"the model does not know how SHR rounds with {c.output.rounding.name}")
            return scaled(a, 1, bit_counts(b), c.output.rounding)
        case ElementwiseMode.DIV:
            if (b == 0).any():
                raise DeviceError("a division by zero")
            return np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    raise DeviceError(f"the model does not know {c.mode.name}")


def resized(c: Resize, x: Array) -> Array:
    """Returns resized values without their zero point, in the upper bits of an accumulator.

    A bilinear one has the units of TOSA's RESIZE: the product of both scales.
    Raises DeviceError.
    """
    values = x.astype(np.int64) - c.ifm.zero_point
    for axis, along in ((1, c.y), (2, c.x)):
        values = _along(values, axis, along, c.output.shape[axis - 1], c.mode)
    return values << ABOVE


def _along(values: Array, axis: int, along: ResizeAxis, size: int, mode: ResizeMode) -> Array:
    place = along.offset + np.arange(size) * (along.step * along.scale + along.rest)
    first, rest = np.divmod(place, along.scale)
    near, far = (values.take(np.clip(k, 0, values.shape[axis] - 1), axis) for k in (first, first + 1))
    shape = [1, 1, 1, 1]
    shape[axis] = size
    weight = rest.reshape(shape)
    if mode == ResizeMode.BILINEAR:
        return near * (along.scale - weight) + far * weight
    if mode == ResizeMode.NEAREST:
        return np.where(2 * weight >= along.scale, far, near)
    raise DeviceError(f"the model does not know RESIZE by {mode.name}")
