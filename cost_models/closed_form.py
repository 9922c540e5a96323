"""The closed form: the price of an op by itself, without Vela.

An op is priced as the commands that it is about to become (`estimator.py`), in guessed blocks.
This price chooses how convolutions are written (`eqsat/options/spellings.py`), stands in for what Vela cannot measure,
and is the cost model `analytic`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from math import ceil, prod

import numpy as np

from cost_models import estimator
from cost_models.blocks import BlockConfig, Work, as_shape, guess_block, up
from cost_models.estimator import WeightFetch
from cost_models.machine import Machine, Place, hardware_of
from cost_models.protocol import Unit
from eqsat.target import Family, Target
from eqsat.target.family import HWC
from eqsat.target.staging import reordering, step_cycles, ways
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Const, DType, Type, occurrences
from eqsat.vela.patterns import LARGEST_STRIDE

#: Cycles of an op that costs nothing by itself, but is better not there.
_NEXT_TO_NOTHING = 1.0
#: Cycles per element of a CONCAT or SLICE, which is sometimes a copy.
_CUT = 0.02
#: {permutation of three axes: the two native ones that Vela makes of it where it is none}, by the commands of 5.2.
_SWAPS: Mapping[HWC, Sequence[HWC]] = {(1, 2, 0): ((1, 0, 2), (0, 2, 1)), (2, 0, 1): ((2, 1, 0), (0, 2, 1))}
#: The cycles of a TRANSPOSE that Vela decomposes in another way, to those of the best chain of native ones.
_DECOMPOSED = 2.0
#: Dilation up to which a convolution is one operator.
_MOST_DILATION = 2
#: Bits of entropy of a trained or random INT8 weight, for weights that are not known.
_BITS = 7.5
#: The encoded size of weights to their entropy.
#: Calibrated on Vela 5.1 with the convolutions of 19 networks.
_OVERHEAD = 1.055
#: Cycles per element of the RESCALE of a TRANSPOSE_CONV2D, which does not fuse.
_UNFUSED_RESCALE = 2.0


def estimate_cycles(unit: Unit, target: Target) -> float:
    """Returns the cycles of one op by itself."""
    if OPS[unit.op].kind == "leaf":
        return 0.0
    machine = hardware_of(target)
    return _NEXT_TO_NOTHING + _FORMS.get(unit.op, _elementwise)(machine, unit)


def _price_slice(machine: Machine, unit: Unit) -> float:
    return _CUT * unit.result.elements


def _transpose(machine: Machine, unit: Unit) -> float:
    return transpose(unit.operands[0], unit.attr("perms"), machine.family)


@lru_cache(maxsize=65536)
def transpose(t: Type, perm: tuple[int, ...], family: Family) -> float:
    """Returns the cycles of a TRANSPOSE, of the native ones that Vela makes of it where these are known.

    Elsewhere it takes more than the best chain, which may view the tensor in other shapes.
    """
    size, outer = DType.of(t.dtype).size, len(perm) - 3
    if 0 <= outer <= 1 and prod(t.shape[:outer]) == 1 and perm[:outer] == tuple(range(outer)):
        shape, axes, cycles = as_shape(t.shape[outer:]), as_shape(p - outer for p in perm[outer:]), 0.0
        natives: Sequence[HWC] = (axes,) if axes in family.transposes.native else _SWAPS.get(axes, ())
        for native in natives:
            cycles += step_cycles(*shape, native, size, family)
            shape = as_shape(shape[p] for p in native)
        if cycles:
            return cycles
    sizes, order = reordering(Move.transpose(t.shape, perm))
    (chain, *_) = ways(sizes, order, size, family)
    if len(chain) == 1 and len(chain[0][0]) != 4:  # no chain is known
        return float(t.elements)
    steps = ((as_shape(s[1:]), tuple(p - 1 for p in order[1:])) for s, order in chain)
    return _DECOMPOSED * sum(step_cycles(*hwc, step, size, family) for hwc, step in steps)


def _convolution(machine: Machine, unit: Unit) -> float:
    """Returns the cycles of a convolution, with the RESCALE that fuses into it.

    Its weights are copied into SRAM once, and read by each of the operators that Vela makes of it.
    """
    work, pieces = parts(unit)
    is_transposed, encoded = unit.op == "transpose_conv2d", _estimate_encoded(unit)
    sparse = machine.family.sparse_weights and work.kind == "conv" and _two_of_four(work.ifm[2], _find_weights(unit))
    fetch = WeightFetch(encoded / pieces if is_transposed else encoded, machine.activations, sparse)
    place = replace(_inside(machine), read_rows=unit.from_input)
    computed = pieces * estimator.mac(machine, work, place, _block(machine, work), machine.core.byte, fetch)
    fetched = machine.constants.reading(encoded + estimator.SCALES * work.ofm[2])
    rescaled = _UNFUSED_RESCALE * unit.result.elements if is_transposed else 0.0
    return pieces * machine.per_command + max(computed, fetched) + rescaled


def parts(unit: Unit) -> tuple[Work, int]:
    """Returns the work of each operator that Vela makes of a convolution, and how many there are.

    A large stride takes one operator per output, a large dilation of one axis or both one per phase of both.
    A TRANSPOSE_CONV2D takes one for each place within the stride.
    """
    ifm, ofm, weights = _spatial(unit.operands[0].shape), _spatial(unit.result.shape), unit.operands[1].shape
    window = weights[:2] if unit.op == "depthwise_conv2d" else weights[1:3]
    stride, kernel, dilation = unit.attr("stride"), _divide(window, (1, 1)), (1, 1)
    if unit.op == "transpose_conv2d":
        count, kernel = prod(stride), _divide(window, stride)
        ofm, stride = (*_divide(ofm[:2], stride), ofm[2]), (1, 1)
    elif max(stride) > LARGEST_STRIDE:
        count, ofm, stride = ofm[0] * ofm[1], (1, 1, ofm[2]), (1, 1)
    else:
        phases = unit.attr("dilation") if max(unit.attr("dilation")) > _MOST_DILATION else (1, 1)
        count, dilation = prod(phases), _divide(unit.attr("dilation"), phases)
        ifm, ofm = (*_divide(ifm[:2], phases), ifm[2]), (*_divide(ofm[:2], phases), ofm[2])
    if kernel == stride == (1, 1):  # rows become one
        ifm, ofm = (1, prod(ifm[:2]), ifm[2]), (1, prod(ofm[:2]), ofm[2])
    kind = "depthwise" if unit.op == "depthwise_conv2d" and ifm[2] > 1 else "conv"
    return Work(kind, ifm, ofm, kernel, stride, dilation, _bits(unit)), count


def _divide(extents: tuple[int, ...], by: tuple[int, ...]) -> tuple[int, int]:
    """Returns pairs divided, rounded up."""
    h, w = (ceil(n / d) for n, d in zip(extents, by, strict=True))
    return h, w


def _block(machine: Machine, work: Work) -> BlockConfig:
    return guess_block(work, machine.core, machine.family.largest_block)


def _find_weights(unit: Unit) -> Const | None:
    return unit.constants[1] if len(unit.constants) > 1 else None


def _estimate_encoded(unit: Unit) -> float:
    """Returns the bytes of the encoded weights of a convolution, which are near their entropy."""
    known, t = _find_weights(unit), unit.operands[1]
    return _OVERHEAD * t.bytes * (_BITS if known is None else _entropy(known)) / 8


@lru_cache(maxsize=4096)
def _entropy(c: Const) -> float:
    """Returns the bits of entropy per weight."""
    counts = occurrences(c.data) if c.data.dtype == np.int8 else np.unique(c.data, return_counts=True)[1]
    share = counts[counts > 0] / c.data.size
    return float(-(share * np.log2(share)).sum())


def _two_of_four(channels: int, known: Const | None) -> bool:
    """Whether at most two of every four channels of the weights are not zero; missing channels count as zeros."""
    return channels <= 2 or known is not None and channels % 4 == 0 and is_sparse(known)


@lru_cache(maxsize=4096)
def is_sparse(weights: Const) -> bool:
    """Tells whether weights [..., 4 * n] are 2:4 sparse: of every four channels at most two are not zero."""
    present = weights.data != 0
    return 2 * int(np.count_nonzero(present)) <= present.size and bool((present.reshape(-1, 4).sum(1) <= 2).all())


def _window(machine: Machine, unit: Unit) -> float:
    """Returns the cycles of AVG_POOL or MAX_POOL."""
    ifm, ofm = _spatial(unit.operands[0].shape), _spatial(unit.result.shape)
    return _price_pooling(machine, Work("pool", ifm, ofm, unit.attr("kernel"), unit.attr("stride"), bits=_bits(unit)))


def _reduction(machine: Machine, unit: Unit) -> float:
    """Returns the cycles of a reduction, which runs as a pooling."""
    shape, axis = unit.operands[0].shape, unit.attr("axis")
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    return _price_pooling(machine, Work("pool", (outer, n, inner), (outer, 1, inner), (1, n), bits=_bits(unit)))


def _price_pooling(machine: Machine, work: Work) -> float:
    cycles = estimator.mac(
        machine, work, _inside(machine), _block(machine, work), machine.core.byte, out_bits=work.bits
    )
    return machine.per_command + cycles


def _product(machine: Machine, unit: Unit) -> float:
    """Returns the cycles of MATMUL: one operator per batch, or a product and a sum per column."""
    n, rows, depth = unit.operands[0].shape
    if machine.family.multiplies_matrices and unit.op == "matmul":
        work = Work("product", (1, rows, depth), (1, rows, unit.result.shape[-1]), bits=_bits(unit))
        return n * _price_pooling(machine, work)
    return unit.result.elements * up(depth, 16) * (machine.core.mul + 16 / machine.core.macs)


def price_copy(unit: Unit, target: Target) -> float:
    """Returns the cycles of an op that copies the result, or computes it as a 1x1 pooling."""
    return _NEXT_TO_NOTHING + _pointwise(hardware_of(target), unit)


def _pointwise(machine: Machine, unit: Unit) -> float:
    return max(machine.family.copy * machine.core.byte * unit.result.elements, _price_movement(machine, unit))


def _elementwise(machine: Machine, unit: Unit) -> float:
    path = machine.core.add if unit.op in ("add", "sub") else machine.core.mul
    return max(path * unit.result.elements, _price_movement(machine, unit))


def _price_movement(machine: Machine, unit: Unit) -> float:
    """Returns the cycles in which the memory of inner tensors moves the operands and the result."""
    return sum(t.bytes for t in (*unit.operands, unit.result)) / machine.activations.bandwidth


def _spatial(shape: tuple[int, ...]) -> HWC:
    """Returns a shape as (h, w, c); leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


def _bits(unit: Unit) -> int:
    """Returns the bits of a stored element of the first operand."""
    return 8 * DType.of(unit.operands[0].dtype).size


def _inside(machine: Machine) -> Place:
    """Returns where inner tensors lie."""
    return Place(machine.activations, machine.activations)


#: {op: the function that prices it}; `_elementwise` prices all others.
#: Those that may be part of another command have no cycles of a command of their own.
_FORMS: dict[str, Callable[[Machine, Unit], float]] = {
    **dict.fromkeys(("conv2d", "depthwise_conv2d", "transpose_conv2d"), _convolution),
    **dict.fromkeys(("avg_pool2d", "max_pool2d"), _window),
    **{name: _reduction for name in OPS if name.startswith("reduce_")},
    **dict.fromkeys(("matmul", "matmul_rows"), _product),
    **dict.fromkeys(("rescale", "clamp", "table", "identity", "pad", "tile", "reverse"), _pointwise),
    **dict.fromkeys(("concat", "slice"), _price_slice),
    "reshape": lambda machine, unit: 0.0,
    "transpose": _transpose,
}
