"""What happens to accumulators of Ethos-U85, as steps of functions: scaling, rounding, clamping, tables."""

from __future__ import annotations

import numpy as np

from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import ByteRange, FixedPointScale
from eqsat.device.core.state import number
from eqsat.device.ethos_u85.arithmetic import TABLES, looked_up, table_place
from eqsat.device.ethos_u85.commands import InputScale, Output
from eqsat.device.ethos_u85.operations import SAME
from eqsat.device.ethos_u85.registers import ActivationClipRange, RoundModeIfm, RoundModeOfm
from eqsat.proof.binary_memory import DTYPES, ShadowMemory
from eqsat.proof.binary_output import Scaling, fitting, halves, scaled
from eqsat.proof.functions import Ints
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value


def rounded(multiplier: Ints | int, shift: Ints | int, rounding: RoundModeOfm, double: int = 0) -> Scaling:
    """As `device.ethos_u85.arithmetic.scaled` does it. double: by how many bits the first of two roundings lies
    lower."""
    multiplier, shift = (np.atleast_1d(np.asarray(x, np.int64)) for x in (multiplier, shift))
    half, zero = halves(shift), np.zeros_like(shift)
    extra = np.where(shift > 31 - double, 1 << 30 - double, 0)
    added = {
        RoundModeOfm.NATURAL: (half, half),
        RoundModeOfm.DOUBLE_SYMMETRIC: (half + extra, half - extra),
        RoundModeOfm.DOUBLE_ASYMMETRIC: (half + extra, half + extra),
        RoundModeOfm.SYMMETRIC: (half, half - (shift > 0)),
        RoundModeOfm.TRUNCATE_TO_ZERO: (zero, (1 << shift) - 1),
        RoundModeOfm.TRUNCATE_TO_LOWER: (zero, zero),
    }
    return Scaling(multiplier, shift, *added[rounding])


def by_factor(t: Terms, v: Value, scale: FixedPointScale, rounding: RoundModeOfm) -> Value:
    return v if scale == SAME else scaled(t, v, rounded(scale.multiplier, scale.shift, rounding))


def scaled_input(t: Terms, v: Value, how: InputScale, dtype: str) -> Value:
    if how.scale == SAME:
        return v
    natural = how.rounding == RoundModeIfm.NATURAL
    rounding = RoundModeOfm.NATURAL if natural else RoundModeOfm.DOUBLE_SYMMETRIC
    v = scaled(t, v, rounded(how.scale.multiplier, how.scale.shift, rounding, how.double))
    return t.stepped(v, [], dtype)


def activated(t: Terms, v: Value, o: Output, memory: ShadowMemory) -> Value:
    """Scaled results with the zero point, clamped, looked up in a table and as the output has them. Raises DeviceError
    and Undecidable."""
    assert o.map is not None
    a, element = o.activation, o.map.element
    place = table_place(a)
    chosen, result = TABLES.get(a.function, (element, element))
    if result != element:
        raise DeviceError(f"{a.function.name} with results of {element.dtype}")
    v = t.stepped(v, [("affine", 1, o.map.zero_point)], UNLIMITED)
    if a.clip_range == ActivationClipRange.B16:
        least, most = chosen.limits
        low, high = (number(b, chosen.signed) for b in (a.minimum, a.maximum))
        if not least <= low <= high <= most:
            raise Undecidable(f"a clamp of {chosen.dtype} to {low} to {high}")
        dtype = DTYPES[chosen.bytes] if chosen.signed else UNLIMITED
        if chosen.bits <= 16:  # by what the type has room for, as graphs do, and then by the limits
            v = t.stepped(v, [("clip", least, most)], dtype)
        v = t.stepped(v, [("clip", low, high)], dtype)
    if place is not None:
        table = memory.constant(ByteRange(None, *place))
        low_, high_ = t.limits(v)
        if low_.min() < chosen.limits[0] or high_.max() > chosen.limits[1]:
            raise Undecidable(f"a table of what {chosen.dtype} has no room for")
        done = t.tabulated(v, lambda x, _: looked_up(x, chosen, element, table), DTYPES[element.bytes])
        if done is None:
            raise Undecidable("a table of too many values")
        v = done
    return fitting(t, v, element)
