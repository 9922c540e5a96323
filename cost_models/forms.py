"""Prices of single ops by the closed forms of `estimator.py`.

`_FORMS` names the function for each op, with the operators that Vela 5 makes of it.
Convolutions are in `convolutions.py`, transposes in `transposes.py`.
A figure that is not from Vela's sources is marked as measured, on Vela 5.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod

from cost_models import estimator
from cost_models.blocks import Work
from cost_models.convolutions import convolution
from cost_models.machine import Place, hardware_of
from cost_models.operation import Operation, batches, spatial
from cost_models.protocol import Unit
from cost_models.transposes import transpose
from eqsat.target import Target
from eqsat.target.family import HWC
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import OPS

#: Cycles per byte of a RESHAPE, which is free or a copy, depending on its surroundings.
#: This small price breaks ties against it.
_RESHAPE = 0.02
#: Cycles per element of a CONCAT or SLICE, to break ties against it.
_CUT = 0.02


def standalone(target: Target, unit: Unit) -> float:
    """Returns the cycles of one op by itself."""
    if OPS[unit.op].kind == "leaf":
        return 0.0
    operation = Operation(target, hardware_of(target), unit)
    cycles = _FORMS.get(unit.op, _elementwise)(operation)
    return cycles if unit.op in _FREE else cycles + operation.machine.per_command


def _reshape(operation: Operation) -> float:
    return _RESHAPE * operation.unit.result.bytes


def _cut(operation: Operation) -> float:
    return _CUT * operation.unit.result.elements


def _transpose(operation: Operation) -> float:
    return transpose(
        operation.target, operation.unit.operands[0], operation.unit.attr("perms"), operation.size, operation.place
    )


def _matmul(operation: Operation) -> float:
    n, rows, depth = operation.unit.operands[0].shape
    return estimator.matmul(
        operation.machine, n, rows, operation.unit.result.shape[-1], depth, operation.size, operation.place
    )


def _matmul_rows(operation: Operation) -> float:
    """Returns a coarse estimate: the output path for the products, the MAC array for their sums."""
    depth = ceil(operation.unit.operands[0].shape[-1] / 16) * 16
    return operation.unit.result.elements * depth * (operation.target.core.mul + 16 / operation.target.core.macs)


def _pooling(operation: Operation) -> float:
    unit = operation.unit
    inputs, outputs = spatial(unit.operands[0].shape), spatial(unit.result.shape)
    work = Work("pool", inputs, outputs, tuple(unit.attr("kernel")), tuple(unit.attr("stride")), bits=operation.bits)
    return estimator.mac(
        operation.machine, work, operation.place, path=operation.machine.plain, out_bits=operation.bits
    )


def _reduction(operation: Operation) -> float:
    """Returns the cycles of REDUCE_MAX or REDUCE_MIN, which run as a pooling."""
    outer, n, inner = _around_axis(operation.unit)
    work = Work("pool", (outer, n, inner), (outer, 1, inner), (1, n), bits=operation.bits)
    machine = operation.machine
    return estimator.mac(machine, work, operation.place, path=machine.plain, out_bits=operation.bits)


def _sum(operation: Operation) -> float:
    """Returns the cycles of REDUCE_SUM, which runs along the channels, after a TRANSPOSE if it is of another axis."""
    outer, n, inner = _around_axis(operation.unit)
    machine, place, size = operation.machine, operation.place, operation.size
    moved = estimator.transpose(machine, (outer, n, inner), (0, 2, 1), size, place) if inner > 1 and n > 1 else 0.0
    rows = spatial((*operation.unit.operands[0].shape[: operation.unit.attr("axis")], n))
    if inner > 1:
        rows = outer, inner, n
    work = Work("sum", rows, (*rows[:2], 1), bits=8 * size)
    return moved + estimator.mac(machine, work, place, path=machine.plain, out_bits=32)


def _around_axis(unit: Unit) -> HWC:
    """Returns the elements before a reduction's axis, along it, and after it."""
    shape, axis = unit.operands[0].shape, unit.attr("axis")
    return prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])


def _rescale(operation: Operation) -> float:
    unit, machine, place = operation.unit, operation.machine, operation.place
    wide = any(DType.of(t.dtype).is_wide for t in (unit.operands[0], unit.result))
    if machine.family.rescales_wide or not wide:
        return _element_by_element(operation)
    # a sum subtracts the zero point, a product scales (measured)
    out, core, widening = spatial(unit.result.shape), machine.core, 0.0
    if operation.size < 4:
        widening = estimator.elementwise(machine, out, max(core.add, machine.plain), place, operation.bits, 32)
    return widening + estimator.elementwise(machine, out, max(core.wide, machine.plain), place, 32, operation.out_bits)


def _element_by_element(operation: Operation) -> float:
    """Returns the cycles of RESCALE, CLAMP or TABLE; a tensor of one channel is pooled with 16 channels."""
    out = spatial(operation.unit.result.shape)
    return _one_by_one(operation, (1, ceil(prod(out) / 16), 16) if out[2] == 1 else out)


def _copy(operation: Operation) -> float:
    """Returns the cycles of PAD, TILE or REVERSE as a 1x1 pooling."""
    return _one_by_one(operation, spatial(operation.unit.result.shape))


def _one_by_one(operation: Operation, out: HWC) -> float:
    op = operation.unit.op
    path = operation.machine.core.byte if op == "clamp" else None
    return _pooled(operation.target, out, operation.place, operation.bits, path, op == "table", operation.out_bits)


@lru_cache(maxsize=65536)
def _pooled(target: Target, out: HWC, place: Place, bits: int, path: float | None, table: bool, out_bits: int) -> float:
    """Returns the cycles of RESCALE, CLAMP, TABLE or a copy as a 1x1 pooling; INT32 counts as two of INT16."""
    machine = hardware_of(target)
    if path is None:
        path = machine.looked_up if table else machine.plain
    if bits == 32:
        out, bits, out_bits = (out[0], out[1], 2 * out[2]), 16, 16
    work = Work("pool", out, out, bits=bits)
    return estimator.mac(machine, work, place, path=path, out_bits=out_bits or bits, table=table)


def _elementwise(operation: Operation) -> float:
    unit, machine = operation.unit, operation.machine
    n, out, place = batches(unit.result.shape), spatial(unit.result.shape[-3:]), operation.place
    if out[2] == 1 and machine.family.planes_in_rows:
        place = replace(place, read_rows=True, write_rows=True)
    bits = operation.bits
    if len(unit.operands) < 2:
        return n * estimator.elementwise(machine, out, machine.plain, place, bits, bits)
    path = max(machine.arithmetic(unit.op, bits), machine.plain)
    read = [spatial(t.shape[-3:]) for t in unit.operands[:2]]
    return n * estimator.elementwise(machine, out, path, place, bits, 8, read)  # the RESCALE of the result fuses


#: Ops that are no command of their own, or only sometimes.
_FREE = ("reshape", "concat", "slice")
#: {op: the function that prices it}; `_elementwise` prices all others.
_FORMS: dict[str, Callable[[Operation], float]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "transpose_conv2d"), convolution),
    **{name: _reduction for name in OPS if name.startswith("reduce_")},
    "reduce_sum": _sum,
    "reshape": _reshape,
    "transpose": _transpose,
    "matmul": _matmul,
    "matmul_rows": _matmul_rows,
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
