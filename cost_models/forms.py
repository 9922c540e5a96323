"""Prices of single ops by the closed forms of `estimator.py`: which operators Vela 5.1 makes of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil, prod, sqrt

from cost_models import estimator
from cost_models.blocks import Work
from cost_models.estimator import Weights
from cost_models.machine import Machine, Place, machine
from cost_models.protocol import Unit
from cost_models.weights import encoded, stored_weights, two_of_four
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type

#: A RESHAPE is free or a copy, depending on its surroundings; this small price breaks ties against it.
_RESHAPE_SHARE = 0.02
#: Cycles per element of the RESCALE behind a TRANSPOSE_CONV2D, which does not fuse (measured on Vela 5.1).
_UNFUSED_RESCALE = 2.0


@dataclass(frozen=True, slots=True)
class Setting:
    """What a cost depends on besides the op: where it reads and writes (None: inner tensors), the activation that it carries ("clamp" or
    "table"), whether its operands are INT8 behind RESCALEs that fuse, the shape of an operand that is constant, the cycles of the op
    before it (None: not known), whether a RESCALE behind it fuses, the permutation that it writes."""

    place: Place | None = None
    activation: str | None = None
    narrow: bool = False
    stored: tuple[int, ...] | None = None
    ahead: float | None = None
    narrows: bool = True
    turned: tuple[int, ...] | None = None


def spatial(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """A shape as (h, w, c): leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


def batches(shape: tuple[int, ...]) -> int:
    """Of an op that Vela does batch by batch."""
    return prod(shape[:-3])


def copy(target, u: Unit, place: Place) -> float:
    """Cycles of a RESHAPE that is a copy."""
    bits, shapes = 8 * DType.of(u.result.dtype).size, (u.operands[0].shape, u.result.shape)
    return min(_pooled(target, spatial(shape), place, bits, None, False, 0, 0.0) for shape in shapes)


def part(target, t: Type, place: Place) -> float:
    """A copy into or out of a larger tensor, which keeps its shape."""
    return batches(t.shape) * _pooled(
        target, spatial(t.shape[-3:]), place, 8 * DType.of(t.dtype).size, None, False, 0, 0.0
    )


_pooled = lru_cache(maxsize=65536)(lambda target, *a: _pool(machine(target), *a))


def _pool(
    m: Machine, out, place: Place, bits: int, path: float | None, table: bool, out_bits: int, ahead: float
) -> float:
    return estimator.pool(m, out, place, bits, path, table=table, out_bits=out_bits, ahead=ahead)


def standalone(target, u: Unit, s: Setting) -> tuple[float, float]:
    """Cycles of one op with the RESCALE and activation that fuse into it; those that the NPU computes of them."""
    if u.op in ("conv2d", "depthwise_conv2d", "transpose_conv2d"):
        return _convolution(machine(target), u, s)
    cycles = _simple(target, u, s)
    return cycles, cycles


def _simple(target, u: Unit, s: Setting) -> float:
    m = machine(target)
    core = m.core
    plain = max(core.byte, core.plain)
    path = core.byte if s.activation == "clamp" else plain
    size = DType.of(u.operands[0].dtype).size if u.operands else 1
    out, place = spatial(u.result.shape), s.place or Place(m.activations, m.activations)
    if OPS[u.op].kind == "leaf":
        return 0.0
    if u.op == "reshape":
        return _RESHAPE_SHARE * u.result.bytes
    if u.op == "transpose":
        return _transpose(target, u.operands[0], u.attr("perms"), size, place)
    if u.op == "matmul":
        n, rows, c = u.operands[0].shape
        return estimator.matmul(m, n, rows, u.result.shape[-1], c, size, place)
    if u.op in ("avg_pool2d", "max_pool2d"):
        work = Work(
            "pool", spatial(u.operands[0].shape), out, tuple(u.attr("kernel")), tuple(u.attr("stride")), bits=8 * size
        )
        return estimator.mac(m, work, place, path=path, out_bits=8 * size)
    if u.op.startswith("reduce_"):
        return _reduce(m, u, s, place, size)
    if u.op in ("concat", "slice"):
        return 0.02 * u.result.elements
    if u.op == "rescale" and not m.family.rescales_wide and "INT32" in (u.operands[0].dtype, u.result.dtype):
        # Vela's form of it: a sum takes the zero point off, a product scales (measured on Vela 5.1)
        widening = estimator.elementwise(m, out, max(core.add, core.plain), place, 8 * size, 32, 1) if size < 4 else 0.0
        return widening + estimator.elementwise(
            m, out, max(core.wide, core.plain), place, 32, 8 * DType.of(u.result.dtype).size, 1
        )
    if u.op in ("rescale", "clamp", "table", "identity", "pad", "tile", "reverse"):
        out = (
            (1, ceil(prod(out) / 16), 16) if out[2] == 1 and u.op in ("rescale", "clamp", "table") else out
        )  # laid out anew
        return _pooled(
            target,
            out,
            place,
            8 * size,
            core.byte if u.op == "clamp" else None,
            u.op == "table",
            8 * DType.of(u.result.dtype).size,
            s.ahead or 0.0,
        )
    n, out = batches(u.result.shape), spatial(u.result.shape[-3:])
    if out[2] == 1 and m.family.planes_in_rows:
        place = replace(place, read_rows=True, write_rows=True)
    if len(u.operands) >= 2:
        bits = 8 if s.narrow else 8 * size
        path = {"add": core.add, "sub": core.add, "mul": core.mul}.get(u.op, core.byte) if bits < 32 else core.wide
        stored = spatial(s.stored[-3:]) if s.stored is not None else None
        out_bits = 8 if s.narrows else 8 * DType.of(u.result.dtype).size
        return n * estimator.elementwise(
            m, out, max(path, 0 if s.activation == "clamp" else core.plain), place, bits, out_bits, stored=stored
        )
    return n * estimator.elementwise(m, out, plain, place, 8 * size, 8 * size, 1)


def _convolution(m: Machine, u: Unit, s: Setting) -> tuple[float, float]:
    place, size = s.place or Place(m.activations, m.activations), DType.of(u.operands[0].dtype).size
    path = m.core.byte if s.activation == "clamp" else max(m.core.byte, m.core.plain)
    n, h, w, oc = u.result.shape
    ifm, ofm, stride, dilation = spatial(u.operands[0].shape), (n * h, w, oc), tuple(u.attr("stride")), (1, 1)
    rescaled, parts, kind = 0.0, 1, "conv"
    if u.op == "depthwise_conv2d":
        kh, kw, c, _ = u.operands[1].shape  # of one channel: an ordinary convolution
        kind, dilation = ("depthwise" if c > 1 else "conv"), tuple(u.attr("dilation"))
    else:
        oc, kh, kw, c = u.operands[1].shape
    if u.op == "conv2d":
        parts, dilation = _parts(u), tuple(u.attr("dilation"))
        if parts > 1:
            dilation = tuple(1 if d > 2 else d for d in dilation)
            ofm, stride = (
                (1, ceil(n * h * w / parts), oc) if max(stride) > 3 else (ceil(n * h / dilation[0]), w, oc),
                (1, 1),
            )
        elif n > 1 and (kh, kw) == (1, 1) and stride == (1, 1):
            rows = n * h if s.activation == "table" else n * h * w // _side(n * h * w)
            ifm, ofm = (rows, n * h * w // rows, c), (rows, n * h * w // rows, oc)
    elif u.op == "transpose_conv2d":  # one convolution for each place within the stride
        rescaled, parts = _UNFUSED_RESCALE * u.result.elements, prod(stride)
        kh, kw = ceil(kh / stride[0]), ceil(kw / stride[1])
        ofm, stride = (ceil(n * h / stride[0]), ceil(w / stride[1]), oc), (1, 1)
    work = Work(kind, ifm, ofm, (kh, kw), stride, dilation, 8 * size)
    block = m.block(work, s.activation == "table")
    if s.turned is not None and len(s.turned) == 4 and s.turned[0] == 0:
        work = replace(
            work, ofm=tuple(ofm[p - 1] for p in s.turned[1:])
        )  # the block stays that of the result as it was
    share = parts if u.op == "transpose_conv2d" else 1
    sparse = kind == "conv" and two_of_four(c, stored_weights(u))
    weights = Weights(encoded(m, u, kind, block.part_kernel) / share, s.ahead, sparse=sparse)
    total, npu = estimator.mac_and_npu(
        m, work, place, block, path, weights, table=s.activation == "table", ahead=s.ahead or 0.0
    )
    if parts > 1:  # the others fetch their weights under the one before
        weights = replace(weights, ahead=npu, whole=u.op == "conv2d")
        total += (parts - 1) * estimator.mac_and_npu(m, work, place, block, path, weights)[0]
    return rescaled + total, npu


def _side(n: int) -> int:
    """Width of the area that Vela takes `n` batches as, where no TABLE follows: about the root (graphir_optimiser.cpp, RewriteFullyConnected)."""
    side = max(n // 16, ceil(sqrt(n)))
    return next(w for w in range(side, n + 1) if n % w == 0)


def _parts(u: Unit) -> int:
    """The convolutions that Vela makes of one: strides above 3 go output by output, dilations above 2 phase by phase."""
    n, h, w, _ = u.result.shape
    strided = h * w if max(u.attr("stride")) > 3 else 1
    return strided * prod(d if d > 2 else 1 for d in u.attr("dilation"))


def _reduce(m: Machine, u: Unit, s: Setting, place: Place, size: int) -> float:
    """A sum runs along the channels, behind a TRANSPOSE where it is of another axis; the others as poolings."""
    shape, axis = u.operands[0].shape, u.attr("axis")
    outer, n, inner = prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :])
    if u.op != "reduce_sum":
        return estimator.mac(
            m,
            Work("pool", (outer, n, inner), (outer, 1, inner), (1, n), bits=8 * size),
            place,
            path=max(m.core.byte, m.core.plain),
            out_bits=8 * size,
        )
    moved = _swap(m, (outer, n, inner), 1 if s.narrow else size, place) if inner > 1 and n > 1 else 0.0
    rows = spatial((outer, inner, n)) if inner > 1 else spatial((*shape[:axis], n))
    if s.narrow and m.family.summed_by_convolution:
        work, weights = Work("conv", rows, (*rows[:2], 1)), Weights(n, s.ahead)
        return moved + estimator.mac(m, work, place, path=max(m.core.byte, m.core.plain), weights=weights)
    bits = 8 if s.narrow else 8 * size
    return moved + estimator.mac(
        m, Work("sum", rows, (*rows[:2], 1), bits=bits), place, path=max(m.core.byte, m.core.plain), out_bits=32
    )


def _swap(m: Machine, shape: tuple[int, int, int], size: int, place: Place) -> float:
    return estimator.transpose(m, shape, (0, 2, 1), size, place)


@lru_cache(maxsize=65536)
def _transpose(target, t: Type, perm: tuple[int, ...], size: int, place: Place) -> float:
    """A native transpose, or the swaps of axes that Vela decomposes any other into."""
    m = machine(target)
    if len(perm) <= 4 and prod(t.shape[:-3]) == 1 and perm[:-3] == tuple(range(len(perm) - 3)):
        shape, last = spatial(t.shape), tuple(p - len(perm) + 3 for p in (-1, -1, *perm)[-3:])
        if len(perm) >= 3 and last in m.family.transposes.native:
            return estimator.transpose(m, shape, last, size, place)
    axes = [a for a in range(len(perm)) if t.shape[a] > 1]
    order = [p for p in perm if t.shape[p] > 1]
    groups: list[list[int]] = []
    for p in order:  # axes that stay neighbours are one
        if groups and axes.index(p) == axes.index(groups[-1][-1]) + 1:
            groups[-1].append(p)
        else:
            groups.append([p])
    if len(groups) <= 1:
        return 0.0
    sources = sorted(range(len(groups)), key=lambda g: groups[g][0])
    sizes = tuple(prod(t.shape[a] for a in groups[g]) for g in sources)
    native = tuple(sources.index(g) for g in range(len(groups)))
    if len(sizes) == 2:
        return min(
            estimator.transpose(m, (1, *sizes), (0, 2, 1), size, place),
            estimator.transpose(m, (*sizes, 1), (1, 0, 2), size, place),
        )
    if len(sizes) == 3 and native in m.family.transposes.native:
        return estimator.transpose(m, sizes, native, size, place)
    swaps = sum(i != p for i, p in enumerate(native)) - 1
    return 2 * swaps * estimator.transpose(m, (prod(sizes[:-2]), *sizes[-2:]), (1, 0, 2), size, place)
