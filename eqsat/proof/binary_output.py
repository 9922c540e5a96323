"""The processing of accumulators as steps of functions.

It includes scaling and rounding, and the clamps and tables of Ethos-U55 and U65.
"""

from __future__ import annotations

import numpy as np

from eqsat.device.core.arithmetic import Scales, halves, rounding_terms, shifted
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import SAME, Element, FixedPointScale
from eqsat.device.core.registers import Rounding
from eqsat.device.ethos_u55.arithmetic import CLIPPED, clamp, looked_up
from eqsat.device.ethos_u55.commands import Activation, Output
from eqsat.device.ethos_u55.registers import ActivationFunction
from eqsat.proof.binary_memory import DTYPES
from eqsat.proof.functions import Ints
from eqsat.proof.steps import LARGEST, Step, Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value, merged

#: Shifts for whose rounding terms 64 bits have room.
_SHIFTS = 62
#: The term that double rounding adds or subtracts first.
_TWICE = 1 << 30
#: The rounding term of a variant: independent of the sign, that of double rounding, or another.
_PLAIN, _DOUBLE, _OTHER = 0, 1, 2


def scaled(
    t: Terms,
    v: Value,
    multiplier: Ints | int,
    shift: Ints | int,
    rounding: Rounding,
    variant: Ints | None = None,
    double: int = 0,
) -> Value:
    """Scales a value as `device.core.arithmetic.scaled` does: (x * multiplier + a rounding term) >> shift.

    variant: the number of each element's multiplier and shift, None if all take the first.
    double: by how many bits the first of two roundings lies lower.
    Raises Undecidable.
    """
    if variant is None:
        variant = np.zeros(v.elements, np.int64)
    multiplier, shift = (np.atleast_1d(np.asarray(x, np.int64)) for x in (multiplier, shift))
    if shift.max() > _SHIFTS:
        raise Undecidable(f"a shift by {shift.max()}")
    positive, negative = rounding_terms(shift, rounding, double)
    steps: dict[int, Step] = {_PLAIN: ("scale", multiplier, positive, shift), _DOUBLE: ("double", multiplier, shift)}

    def rounded(x: Ints, row: Ints) -> Ints:
        added = np.where(x >= 0, positive[row], negative[row])
        return np.asarray(shifted(x, multiplier[row], shift[row], added))

    def of_kind(kind: int, v: Value, variant: Ints) -> Value:
        if kind in steps:
            return t.stepped(v, [steps[kind]], UNLIMITED, variant)
        done = t.tabulated(v, rounded, UNLIMITED, variant)
        if done is None:
            raise Undecidable("an accumulator of which the sign decides how it is rounded")
        return done

    half = halves(shift)
    twice = (positive - half == _TWICE) & (negative - half == -_TWICE)
    kinds = np.where(positive == negative, _PLAIN, np.where(twice, _DOUBLE, _OTHER))[variant]
    kinds = np.where((kinds == _OTHER) & (t.limits(v)[0] >= 0), _PLAIN, kinds)
    if len(different := np.unique(kinds)) == 1:
        return of_kind(int(different[0]), v, variant)
    v, parts = t.plain(v), []
    for kind in different.tolist():
        mask = kinds == kind
        parts.append((mask, of_kind(kind, v.moved(np.flatnonzero(mask)), variant[mask])))
    return merged(v.shape, UNLIMITED, parts)


def by_factor(t: Terms, v: Value, scale: FixedPointScale, rounding: Rounding) -> Value:
    """Scales all elements by one factor. Raises Undecidable."""
    return v if scale == SAME else scaled(t, v, scale.multiplier, scale.shift, rounding)


def by_channel(t: Terms, v: Value, own: Scales, rounding: Rounding) -> Value:
    """Adds each channel's bias to sums [1, height, width, depth] and scales them. Raises Undecidable."""
    channels = np.broadcast_to(np.arange(v.shape[-1]), v.shape).reshape(-1)
    v = t.stepped(v, [("affine", 1, own.bias)], UNLIMITED, channels)
    return scaled(t, v, own.multiplier, own.shift, rounding, channels)


def held(t: Terms, v: Value, bits: int) -> Value:
    """Notes the sums that accumulators of these bits may have no room for, and returns the sums."""
    limit = 1 << bits - 1
    t.require(v, -limit, limit - 1)
    return v


def activated(t: Terms, v: Value, o: Output, table: bytes | None) -> Value:
    """Adds the zero point to scaled results, clamps them and looks them up in `table`.

    Raises DeviceError for an unknown activation, and Undecidable.
    """
    a, element = o.activation, o.map.element
    clipped = CLIPPED.get(a.clip_range, element)
    v = t.stepped(v, [("affine", 1, o.map.zero_point)], UNLIMITED)
    if clipped.bits <= 16:
        v = _clipped(t, v, a, clipped)
    if table is not None:
        done = t.tabulated(v, lambda x, _: looked_up(x, clipped, element, table), DTYPES[element.bytes])
        if done is None:
            raise Undecidable("a table of too many values")
        v = done
    elif a.function != ActivationFunction.RELU:
        raise DeviceError(f"the model does not know the activation {a.function.name}")
    return fitting(t, v, element)


def _clipped(t: Terms, v: Value, a: Activation, clipped: Element) -> Value:
    """Clips to the range of the type first, as graphs do, then to the limits of the activation."""
    dtype = DTYPES[clipped.bytes] if clipped.signed else UNLIMITED
    v = t.stepped(v, [("clip", *clipped.limits)], dtype)
    return t.stepped(v, [("clip", *clamp(a, clipped))], dtype)


def check_room(t: Terms, v: Value, factor: int) -> None:
    """Raises Undecidable if sums of products of elements with `factor` may leave int64."""
    if largest(t, v) * factor >= LARGEST:
        raise Undecidable("sums of products that 64 bits have no room for")


def operand(t: Terms, v: Value, zero_point: int, wide: bool) -> Value:
    """Subtracts the zero point of an operand.

    wide: whether what is computed with it has no limit; otherwise it is a word of 32 bits.
    Raises Undecidable for one that may be none.
    """
    v = t.stepped(v, [("affine", 1, -zero_point)], UNLIMITED if wide else "INT32")
    if not wide and t.outside(v, *Element(True, 32).limits).any():
        raise Undecidable("an operand that 32 bits have no room for")
    return v


def check_absolute(t: Terms, v: Value) -> None:
    """Raises Undecidable if an absolute value may leave 32 bits."""
    if largest(t, v) >= 1 << 31:
        raise Undecidable("an absolute value that 32 bits have no room for")


def largest(t: Terms, v: Value) -> int:
    """Returns the largest absolute value, at least 1."""
    low, high = t.limits(v)
    return max(-int(low.min()), int(high.max()), 1)


def fitting(t: Terms, v: Value, element: Element) -> Value:
    """Requires the elements to fit the type.

    Only beyond 32 bits does TOSA leave open what a graph computes, so only such a requirement may equal one of a graph.
    """
    t.require(v, *element.limits, *(() if element == Element(True, 32) else ("fits",)))
    return t.stepped(v, [], DTYPES[element.bytes]) if element.signed else v
