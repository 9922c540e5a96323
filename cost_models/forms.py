"""Prices of single ops by the closed forms of `estimator.py`: which operators Vela 5.1 makes of each.

`_FORMS` says by which function; convolutions are in `convolutions.py`, transposes in `transposes.py`. What is not read in Vela's sources is
marked as measured, on Vela 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod

from cost_models import estimator
from cost_models.blocks import Work
from cost_models.convolutions import convolution
from cost_models.estimator import WeightFetch
from cost_models.machine import Place, machine_of
from cost_models.protocol import Unit
from cost_models.setting import Operation, Setting, batches, spatial
from cost_models.transposes import swap, transpose
from eqsat.target import Target
from eqsat.target.family import HWC
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type

#: A RESHAPE is free or a copy, depending on its surroundings; this small price per byte breaks ties against it.
_RESHAPE = 0.02
#: The same of a CONCAT or SLICE, per element.
_CUT = 0.02


def standalone(target: Target, u: Unit, s: Setting) -> tuple[float, float]:
    """Cycles of one op with the RESCALE and activation that fuse into it; those that the NPU computes of them."""
    o = Operation(target, machine_of(target), u, s)
    if u.op in ("conv2d", "depthwise_conv2d", "transpose_conv2d"):
        return convolution(o)
    cycles = 0.0 if OPS[u.op].kind == "leaf" else _FORMS.get(u.op, _elementwise)(o)
    return cycles, cycles


def copy(target: Target, u: Unit, place: Place) -> float:
    """Cycles of a RESHAPE that is a copy."""
    bits = 8 * DType.of(u.result.dtype).size
    return min(_pooled(target, spatial(t.shape), place, bits) for t in (u.operands[0], u.result))


def part(target: Target, t: Type, place: Place) -> float:
    """A copy into or out of a larger tensor, which keeps its shape."""
    return batches(t.shape) * _pooled(target, spatial(t.shape[-3:]), place, 8 * DType.of(t.dtype).size)


@lru_cache(maxsize=65536)
def _pooled(
    target: Target,
    out: HWC,
    place: Place,
    bits: int,
    path: float | None = None,
    table: bool = False,
    out_bits: int = 0,
    ahead: float = 0.0,
) -> float:
    """See `estimator.pool`."""
    return estimator.pool(machine_of(target), out, place, bits, path, table=table, out_bits=out_bits, ahead=ahead)


def _reshape(o: Operation) -> float:
    return _RESHAPE * o.unit.result.bytes


def _cut(o: Operation) -> float:
    return _CUT * o.unit.result.elements


def _transpose(o: Operation) -> float:
    return transpose(o.target, o.unit.operands[0], o.unit.attr("perms"), o.size, o.place)


def _matmul(o: Operation) -> float:
    n, rows, depth = o.unit.operands[0].shape
    return estimator.matmul(o.machine, n, rows, o.unit.result.shape[-1], depth, o.size, o.place)


def _pooling(o: Operation) -> float:
    u = o.unit
    inputs, outputs = spatial(u.operands[0].shape), spatial(u.result.shape)
    work = Work("pool", inputs, outputs, tuple(u.attr("kernel")), tuple(u.attr("stride")), bits=o.bits)
    return estimator.mac(o.machine, work, o.place, path=o.path, out_bits=o.bits)


def _reduction(o: Operation) -> float:
    """The largest or smallest of an axis, as a pooling."""
    outer, n, inner = _around_axis(o.unit)
    work = Work("pool", (outer, n, inner), (outer, 1, inner), (1, n), bits=o.bits)
    return estimator.mac(o.machine, work, o.place, path=o.machine.plain, out_bits=o.bits)


def _sum(o: Operation) -> float:
    """A sum runs along the channels, after a TRANSPOSE where it is of another axis."""
    outer, n, inner = _around_axis(o.unit)
    size = 1 if o.setting.narrow else o.size
    moved = swap(o.machine, (outer, n, inner), size, o.place) if inner > 1 and n > 1 else 0.0
    rows = spatial((outer, inner, n) if inner > 1 else (*o.unit.operands[0].shape[: o.unit.attr("axis")], n))
    if o.setting.narrow and o.machine.family.summed_by_convolution:
        work, weights = Work("conv", rows, (*rows[:2], 1)), WeightFetch(n, o.setting.ahead)
        return moved + estimator.mac(o.machine, work, o.place, path=o.machine.plain, weights=weights)
    work = Work("sum", rows, (*rows[:2], 1), bits=8 * size)
    return moved + estimator.mac(o.machine, work, o.place, path=o.machine.plain, out_bits=32)


def _around_axis(u: Unit) -> HWC:
    """Elements before a reduction's axis, along it, and after it."""
    shape, axis = u.operands[0].shape, u.attr("axis")
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _rescale(o: Operation) -> float:
    u, core = o.unit, o.machine.core
    if o.machine.family.rescales_wide or not any(DType.of(t.dtype).is_wide for t in (u.operands[0], u.result)):
        return _element_by_element(o)
    # a sum takes the zero point off, a product scales (measured)
    out, plain = spatial(u.result.shape), o.machine.plain
    widening = (
        estimator.elementwise(o.machine, out, max(core.add, plain), o.place, o.bits, 32, 1) if o.size < 4 else 0.0
    )
    return widening + estimator.elementwise(o.machine, out, max(core.wide, plain), o.place, 32, o.out_bits, 1)


def _element_by_element(o: Operation) -> float:
    """RESCALE, CLAMP, TABLE, as a 1x1 pooling; of one channel laid out anew."""
    out, op = spatial(o.unit.result.shape), o.unit.op
    if out[2] == 1:
        out = (1, ceil(prod(out) / 16), 16)
    path = o.machine.core.byte if op == "clamp" else None
    return _pooled(o.target, out, o.place, o.bits, path, op == "table", o.out_bits, o.setting.ahead or 0.0)


def _copy(o: Operation) -> float:
    """PAD, TILE, REVERSE, as a 1x1 pooling."""
    return _pooled(
        o.target,
        spatial(o.unit.result.shape),
        o.place,
        o.bits,
        out_bits=o.out_bits,
        ahead=o.setting.ahead or 0.0,
    )


def _elementwise(o: Operation) -> float:
    u, s, core = o.unit, o.setting, o.machine.core
    n, out, place = batches(u.result.shape), spatial(u.result.shape[-3:]), o.place
    if out[2] == 1 and o.machine.family.planes_in_rows:
        place = replace(place, read_rows=True, write_rows=True)
    if len(u.operands) < 2:
        return n * estimator.elementwise(o.machine, out, o.machine.plain, place, o.bits, o.bits, 1)
    bits = 8 if s.narrow else o.bits
    path = {"add": core.add, "sub": core.add, "mul": core.mul}.get(u.op, core.byte) if bits < 32 else core.wide
    return n * estimator.elementwise(
        o.machine,
        out,
        max(path, o.path),
        place,
        bits,
        8 if s.narrows else o.out_bits,
        stored=None if s.constant is None else spatial(s.constant[-3:]),
    )


#: What an op is priced by; any other by `_elementwise`.
_FORMS: dict[str, Callable[[Operation], float]] = {
    **{name: _reduction for name in OPS if name.startswith("reduce_")},
    "reduce_sum": _sum,
    "reshape": _reshape,
    "transpose": _transpose,
    "matmul": _matmul,
    "avg_pool2d": _pooling,
    "max_pool2d": _pooling,
    "concat": _cut,
    "slice": _cut,
    "rescale": _rescale,
    "clamp": _element_by_element,
    "table": _element_by_element,
    "identity": _copy,
    "pad": _copy,
    "tile": _copy,
    "reverse": _copy,
}
