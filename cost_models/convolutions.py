"""Closed forms of convolutions.

For each kind they give the work of the MAC array with Vela 5, and the number of operators.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod, sqrt

from cost_models import estimator
from cost_models.blocks import Work
from cost_models.estimator import WeightFetch
from cost_models.operation import Operation, spatial
from cost_models.protocol import Unit
from cost_models.weights import encoded, stored_weights, two_of_four

#: Cycles per element of the RESCALE of a TRANSPOSE_CONV2D, which does not fuse.
#: Measured on Vela 5.1.
_UNFUSED_RESCALE = 2.0
#: Stride up to which a convolution is one operator.
_MAX_STRIDE = 3
#: Dilation up to which a convolution is one operator.
_MAX_DILATION = 2


@dataclass(frozen=True, slots=True)
class _Parts:
    """A convolution as `count` operators that do `work` each.

    depth   : channels of the input
    divided : whether each has its share of the weights, otherwise all of them
    rescaled: cycles of a RESCALE that does not fuse
    """

    work: Work
    depth: int
    count: int = 1
    divided: bool = False
    rescaled: float = 0.0


def convolution(operation: Operation) -> float:
    """Returns the cycles of a convolution, with the RESCALE that fuses into it."""
    unit, machine, path = operation.unit, operation.machine, operation.machine.plain
    parts = {"conv2d": _plain, "depthwise_conv2d": _depthwise, "transpose_conv2d": _transposed}[unit.op](operation)
    work, block = parts.work, machine.block(parts.work)
    share = parts.count if parts.divided else 1
    sparse = machine.family.sparse_weights and work.kind == "conv" and two_of_four(parts.depth, stored_weights(unit))
    weights = WeightFetch(encoded(machine, unit, work.kind, block.part_kernel) / share, sparse=sparse)
    total, npu = estimator.mac_and_npu(machine, work, operation.place, block, path, weights)
    if parts.count > 1:  # each further part fetches its weights during the one before
        weights = replace(weights, ahead=npu, whole=not parts.divided)
        total += (parts.count - 1) * estimator.mac_and_npu(machine, work, operation.place, block, path, weights)[0]
    return parts.rescaled + total


def _plain(operation: Operation) -> _Parts:
    """Returns the parts of a CONV2D.

    A large stride takes one operator per output, a large dilation one per phase.
    The batches of a 1x1 convolution become an area.
    """
    unit = operation.unit
    n, h, w, _ = unit.result.shape
    oc, kh, kw, c = unit.operands[1].shape
    (sy, sx), (dy, dx) = unit.attr("stride"), unit.attr("dilation")
    ifm, ofm = spatial(unit.operands[0].shape), (n * h, w, oc)
    count = _parts(unit)
    if count > 1:
        dy, dx = (1 if d > _MAX_DILATION else d for d in (dy, dx))
        ofm = (1, ceil(n * h * w / count), oc) if max(sy, sx) > _MAX_STRIDE else (ceil(n * h / dy), w, oc)
        sy = sx = 1
    elif n > 1 and (kh, kw) == (1, 1) and (sy, sx) == (1, 1):
        rows = n * h * w // _area_width(n * h * w)
        ifm, ofm = (rows, n * h * w // rows, c), (rows, n * h * w // rows, oc)
    return _Parts(Work("conv", ifm, ofm, (kh, kw), (sy, sx), (dy, dx), operation.bits), c, count)


def _depthwise(operation: Operation) -> _Parts:
    """Returns the part of a DEPTHWISE_CONV2D; with one channel it is an ordinary convolution."""
    unit = operation.unit
    n, h, w, oc = unit.result.shape
    kh, kw, c, _ = unit.operands[1].shape
    (sy, sx), (dy, dx) = unit.attr("stride"), unit.attr("dilation")
    kind = "depthwise" if c > 1 else "conv"
    return _Parts(
        Work(kind, spatial(unit.operands[0].shape), (n * h, w, oc), (kh, kw), (sy, sx), (dy, dx), operation.bits), c
    )


def _transposed(operation: Operation) -> _Parts:
    """Returns the parts of a TRANSPOSE_CONV2D: one convolution for each place within the stride."""
    unit = operation.unit
    n, h, w, _ = unit.result.shape
    oc, kh, kw, c = unit.operands[1].shape
    sy, sx = unit.attr("stride")
    ofm, kernel = (ceil(n * h / sy), ceil(w / sx), oc), (ceil(kh / sy), ceil(kw / sx))
    work = Work("conv", spatial(unit.operands[0].shape), ofm, kernel, bits=operation.bits)
    return _Parts(work, c, sy * sx, divided=True, rescaled=_UNFUSED_RESCALE * unit.result.elements)


def _parts(unit: Unit) -> int:
    """Returns the number of convolutions that Vela makes of one."""
    _, h, w, _ = unit.result.shape
    strided = h * w if max(unit.attr("stride")) > _MAX_STRIDE else 1
    dilated: int = prod(d if d > _MAX_DILATION else 1 for d in unit.attr("dilation"))
    return strided * dilated


def _area_width(n: int) -> int:
    """Returns the width, about the root, of the area of `n` batches (RewriteFullyConnected)."""
    side = max(n // 16, ceil(sqrt(n)))
    return next(w for w in range(side, n + 1) if n % w == 0)
