"""The processing of accumulators of Ethos-U85 as steps of functions.

It includes scaling, rounding, clamping and tables.
"""

from __future__ import annotations

from eqsat.device.core.arithmetic import looked_up
from eqsat.device.core.errors import DeviceError
from eqsat.device.core.operands import SAME
from eqsat.device.core.registers import Rounding
from eqsat.device.core.state import number
from eqsat.device.ethos_u85.arithmetic import TABLES, table_place
from eqsat.device.ethos_u85.commands import InputScale, Output
from eqsat.device.ethos_u85.registers import ActivationClipRange, RoundModeIfm
from eqsat.proof.binary_memory import DTYPES, ShadowMemory
from eqsat.proof.binary_output import Scaling, fitting, scaled
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import UNLIMITED, Terms, Value


def scaled_input(t: Terms, v: Value, how: InputScale, dtype: str) -> Value:
    if how.scale == SAME:
        return v
    natural = how.rounding == RoundModeIfm.NATURAL
    rounding = Rounding.NATURAL if natural else Rounding.DOUBLE_SYMMETRIC
    v = scaled(t, v, Scaling.of(how.scale.multiplier, how.scale.shift, rounding, how.double))
    return t.stepped(v, [], dtype)


def activated(t: Terms, v: Value, o: Output, memory: ShadowMemory) -> Value:
    """Adds the zero point to scaled results, clamps them and looks them up in a table.

    Raises DeviceError and Undecidable.
    """
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
        table = memory.constant(place)
        low_, high_ = t.limits(v)
        if low_.min() < chosen.limits[0] or high_.max() > chosen.limits[1]:
            raise Undecidable(f"a table of what {chosen.dtype} has no room for")
        done = t.tabulated(v, lambda x, _: looked_up(x, chosen, element, table), DTYPES[element.bytes])
        if done is None:
            raise Undecidable("a table of too many values")
        v = done
    return fitting(t, v, element)
