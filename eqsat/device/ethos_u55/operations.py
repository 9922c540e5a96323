"""Convolutions, poolings and elementwise operations: from what the memory holds to accumulators, and to what it will
hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from eqsat.device.core.arithmetic import BINARY, Scales, leading_zeros, scaled, scaled_by
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.windows import Window
from eqsat.device.ethos_u55.commands import Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.registers import ElementwiseMode, IfmScaleMode, PoolingMode, RoundMode
from eqsat.tensor.types import Array

#: By the bits of its elements, how far the operand of a sum that OPA_SCALE does not scale is shifted to the left.
BUILT_IN = {8: 19, 16: 14}


def _window(c: Convolution | Pooling) -> Window:
    return Window(c.kernel, c.output.shape[:2], c.upscale, c.ifm.zero_point)


def convolved(c: Convolution, x: Array, weights: Array) -> Array:
    """Accumulators, int64 [samples, height, width, out], without biases. weights: [out, height, width, in]."""
    return _window(c).convolved(x, weights, c.depthwise)


def pooled(c: Pooling, x: Array) -> Array:
    """int64 [samples, height, width, depth]: the maximum, or the sum, of each window; or the sum over the depth."""
    largest = c.mode == PoolingMode.MAX
    values = _window(c).combined(x, np.maximum if largest else np.add, -np.inf if largest else 0.0)
    if c.mode == PoolingMode.REDUCE_SUM:
        values = values.sum(-1, keepdims=True)
    return values.astype(np.int64)


def averaged(c: Pooling, sums: Array) -> Array:
    """Sums over windows that reach into the padding, each divided by how many elements it has seen.

    Vela leaves this division to the hardware (`ethos_u55_register_cs_generator.cpp`, GenerateOFMScalingForPooling). How
    that is done is not public; the model takes the reciprocals that Vela gives it where there is no padding
    (`ethos_u_scaling.cpp`), which round a half away from zero."""
    ones = replace(c.ifm, zero_point=0, depth=1)
    counts = pooled(replace(c, ifm=ones, mode=PoolingMode.AVERAGE), np.ones((1, c.ifm.height, c.ifm.width, 1)))
    if (counts == 0).any():
        raise DeviceError("an average over nothing but padding")
    assert sums.shape[1:3] == c.output.shape[:2]
    return scaled(sums, *reciprocals(counts), c.output.rounding.rule)


def reciprocals(counts: Array) -> tuple[Array, Array]:
    """Multipliers and shifts that divide by these counts."""
    bits = np.where(counts > 1, np.frexp(np.maximum(counts - 1, 1).astype(np.float64))[1], 0)
    shift = 31 + bits
    return -(-((np.int64(1) << shift) + (np.int64(1) << bits)) // counts), shift


def combined(c: Elementwise, x: Array, y: Array | int | None) -> Array:
    """int64: the result of an elementwise operation before the output's scaling. x: IFM, y: IFM2 or the scalar."""
    values = x.astype(np.int64) - c.ifm.zero_point
    if y is None:
        return _unary(c, values)
    other = np.asarray(y, np.int64) - (c.zero_point2 if c.ifm2 is None else c.ifm2.zero_point)
    a, b = (other, values) if c.reversed else (values, other)
    if c.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
        a, b = _operands(c, a, b)
    if c.mode.name in BINARY:
        return np.asarray(BINARY[c.mode.name](a, b))
    match c.mode:
        case ElementwiseMode.SHR:
            return _shifted_right(a, b, c.output.rounding)
        case ElementwiseMode.SHL:
            return (a << b).astype(np.int32).astype(np.int64)
    raise DeviceError(f"the model does not know {c.mode.name} with two operands")


def _unary(c: Elementwise, values: Array) -> Array:
    match c.mode:
        case ElementwiseMode.ABS:
            return np.abs(values)
        case ElementwiseMode.CLZ:
            return leading_zeros(values)
    raise DeviceError(f"the model does not know {c.mode.name}")


def _operands(c: Elementwise, a: Array, b: Array) -> tuple[Array, Array]:
    """Both operands of a sum, scaled: each by 16 bits without a shift; or the one that the mode names by OPA_SCALE, and
    the other by a shift to the left that the hardware has built in (1 << 19 for 8 bits, 1 << 14 for 16;
    `ethos_u55_constraints.cpp`)."""
    assert c.opa is not None and c.opb is not None
    if c.input_scale == IfmScaleMode.OPA_OPB_16:
        # both registers have 16 bits here, in which a wider value loses its upper ones (executorch pull request 21151)
        opa = c.opa.multiplier & 0xFFFF
        first, second = (c.opb, opa) if c.reversed else (opa, c.opb)
        return a * first, b * second
    if c.ifm.element.bits not in BUILT_IN:
        raise DeviceError(f"the model does not know {c.input_scale.name} for {c.ifm.element.dtype}")
    shift = BUILT_IN[c.ifm.element.bits]
    if c.input_scale == IfmScaleMode.OPA_32:
        return scaled_by(a, c.opa, c.input_rounding.rule), b << shift
    return a << shift, scaled_by(b, c.opa, c.input_rounding.rule)


def _shifted_right(a: Array, b: Array, rounding: RoundMode) -> Array:
    """Only NATURAL is documented, as a rounded shift (`ethosu/vela/api.py`)."""
    if rounding != RoundMode.NATURAL:
        raise DeviceError(f"the model does not know how SHR rounds with {rounding.name}")
    if (b < 0).any() or (b > 31).any():
        raise DeviceError("a shift outside 0 to 31")
    return scaled(a, 1, b, rounding.rule)


def output(o: Output, values: Array, own: Scales | None) -> Array:
    """Accumulators scaled, with the output's zero point. own: each channel's bias and scale."""
    if own is not None:
        values = scaled(values + own.bias, own.multiplier, own.shift, o.rounding.rule)
    elif o.scale is not None:
        values = scaled_by(values, o.scale, o.rounding.rule)
    return values + o.map.zero_point
