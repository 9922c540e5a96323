"""Convolutions, poolings and elementwise operations: the arithmetic between reading and writing."""

from __future__ import annotations

import numpy as np

from eqsat.device.core.arithmetic import BINARY, UNARY, Scales, bit_counts, scaled, scaled_by
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.registers import Rounding
from eqsat.device.core.windows import Window
from eqsat.device.ethos_u55.commands import Convolution, Elementwise, Output, Pooling
from eqsat.device.ethos_u55.registers import ElementwiseMode, IfmScaleMode, PoolingMode, RoundMode
from eqsat.tensor.types import Array

#: Left shift of the operand of a sum that OPA_SCALE does not scale, by the bits of its elements.
BUILT_IN = {8: 19, 16: 14}


def window(c: Convolution | Pooling) -> Window:
    return Window(c.kernel, c.output.shape[:2], c.upscale, c.ifm.zero_point)


def pooled(c: Pooling, x: Array) -> Array:
    """Returns the maximum or the sum of each window, int64 [samples, height, width, depth].

    REDUCE_SUM also sums over the depth.
    """
    largest = c.mode == PoolingMode.MAX
    values = window(c).combined(x, np.maximum if largest else np.add, -np.inf if largest else 0.0)
    if c.mode == PoolingMode.REDUCE_SUM:
        values = values.sum(-1, keepdims=True)
    return values.astype(np.int64)


def averaged(c: Pooling, sums: Array) -> Array:
    """Divides sums over windows that reach into the padding by the number of elements seen.

    Vela leaves this division to the hardware, which does not document it.
    Source: `ethos_u55_register_cs_generator.cpp`, GenerateOFMScalingForPooling.
    The model takes the reciprocals that Vela uses without padding (`ethos_u_scaling.cpp`).
    These round a half away from zero.
    """
    counts = window(c).counts(c.ifm.height, c.ifm.width)
    return scaled(sums, *reciprocals(counts), c.output.rounding.rule)


def reciprocals(counts: Array) -> tuple[Array, Array]:
    """Multipliers and shifts that divide by the counts."""
    bits = np.where(counts > 1, np.frexp(np.maximum(counts - 1, 1).astype(np.float64))[1], 0)
    shift = 31 + bits
    return -(-((np.int64(1) << shift) + (np.int64(1) << bits)) // counts), shift


def combined(c: Elementwise, x: Array, y: Array | int | None) -> Array:
    """Returns the result of an elementwise operation before the output's scaling, int64.

    x: IFM.
    y: IFM2 or the scalar, None for a unary operation.
    """
    values = x.astype(np.int64) - c.ifm.zero_point
    if y is None:
        if c.mode.name not in UNARY:
            raise DeviceError(f"the model does not know {c.mode.name}")
        return UNARY[c.mode.name](values)
    other = np.asarray(y, np.int64) - (c.zero_point2 if c.ifm2 is None else c.ifm2.zero_point)
    a, b = (other, values) if c.reversed else (values, other)
    if c.mode in (ElementwiseMode.ADD, ElementwiseMode.SUB):
        a, b = _operands(c, a, b)
    if c.mode.name in BINARY:
        return np.asarray(BINARY[c.mode.name](a, b))
    match c.mode:
        case ElementwiseMode.SHR:
            if c.output.rounding != RoundMode.NATURAL:  # only this one is documented (`ethosu/vela/api.py`)
                raise DeviceError(f"the model does not know how SHR rounds with {c.output.rounding.name}")
            return scaled(a, 1, bit_counts(b), Rounding.NATURAL)
        case ElementwiseMode.SHL:
            return (a << b).astype(np.int32).astype(np.int64)
    raise DeviceError(f"the model does not know {c.mode.name} with two operands")


def _operands(c: Elementwise, a: Array, b: Array) -> tuple[Array, Array]:
    """Returns both operands of a sum, scaled.

    OPA_OPB_16 multiplies each by 16 bits without a shift.
    The other modes scale one operand by OPA_SCALE and shift the other to the left.
    The hardware fixes that shift: 1 << 19 for 8 bits, 1 << 14 for 16.
    Source: `ethos_u55_constraints.cpp`.
    """
    assert c.opa is not None and c.opb is not None
    if c.input_scale == IfmScaleMode.OPA_OPB_16:
        # both registers have 16 bits here, in which a wider value loses its upper ones
        # (executorch pull request 21151)
        opa = c.opa.multiplier & 0xFFFF
        first, second = (c.opb, opa) if c.reversed else (opa, c.opb)
        return a * first, b * second
    if c.ifm.element.bits not in BUILT_IN:
        raise DeviceError(f"the model does not know {c.input_scale.name} for {c.ifm.element.dtype}")
    shift = BUILT_IN[c.ifm.element.bits]
    if c.input_scale == IfmScaleMode.OPA_32:
        return scaled_by(a, c.opa, c.input_rounding.rule), b << shift
    return a << shift, scaled_by(b, c.opa, c.input_rounding.rule)


def output(o: Output, values: Array, own: Scales | None) -> Array:
    """Scales accumulators and adds the output's zero point.

    own: each channel's bias and scale, None if there are none.
    """
    if own is not None:
        values = scaled(values + own.bias, own.multiplier, own.shift, o.rounding.rule)
    elif o.scale is not None:
        values = scaled_by(values, o.scale, o.rounding.rule)
    return values + o.map.zero_point
