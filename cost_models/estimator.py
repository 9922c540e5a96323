"""Closed forms of Vela 5.1's estimate: MAC blocks, output path, memories. No Vela at run time.

The formulas are those of its C++ compiler (regor), read in the sources that ethos-u-vela publishes: architecture/ethosu55/
ethos_u55_performance.cpp and architecture/ethosu85/ethos_u85_performance.cpp; compiler/scheduler.cpp for the weights that are
fetched ahead. An operator takes the larger of the NPU's cycles and of each memory's; the NPU's are those of the slower of MAC array and
output path for every block (`blocks.py`), plus one block of the other and one of the memories, which do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod

from cost_models.blocks import Block, Work, up
from cost_models.machine import Machine, Memory, Place
from eqsat.target.family import Shape

#: Bytes of scale and bias per output channel.
SCALES = 10
#: Bytes of a lookup table by bytes of an element.
_TABLE = {1: 256, 2: 2048}


def _waste(m: Machine, memory: Memory, reads: bool, rows: bool, bits: int, block: Shape, shape: Shape) -> float:
    """How many times as much a memory moves as is asked for: a burst that is shorter than the longest takes as long."""
    whole, cores = bits * block[1] * block[2], 1 if reads else m.core.cores
    if not rows:
        length = whole if shape[1] * bits * 2 == block[2] else 16 * bits * block[1] * cores
    elif shape[2] * bits // 8 == block[2] and (reads or block[2] <= 16):
        length = whole
    else:
        length = bits * block[2] if reads else min(512, 16 * bits * cores, bits * block[2])
    return memory.burst / min(memory.burst, max(1, length // 8))


def _units(shape: Shape, unit: Shape) -> int:
    return prod(ceil(d / u) for d, u in zip(shape, unit))


def _within(a: Shape, b: Shape) -> Shape:
    return tuple(map(min, a, b))


@dataclass(frozen=True, slots=True)
class Weights:
    """Bytes of a multiply-accumulate op's constants, encoded, and cycles of the op before it, under which they can be fetched.
    ahead: None where that op is not known. whole: the op shares them with its neighbours and waits for all of them. sparse: at most two of four
    channels are not zero, which some families skip."""

    encoded: float
    ahead: float | None = None
    whole: bool = False
    sparse: bool = False


def mac(
    m: Machine,
    w: Work,
    place: Place,
    *,
    path: float,
    weights: Weights | None = None,
    out_bits: int = 8,
    table: bool = False,
    ahead: float = 0.0,
) -> float:
    """Cycles of what the MAC array does: convolutions, products, poolings and what runs as a 1x1 pooling, sums.

    path: output cycles per element. table: a lookup table follows, fetched under the last `ahead` cycles of the op before.
    """
    return mac_and_npu(m, w, place, m.block(w, table), path, weights, out_bits, table, ahead)[0]


def mac_and_npu(
    m: Machine,
    w: Work,
    place: Place,
    b: Block,
    path: float,
    weights: Weights | None = None,
    out_bits: int = 8,
    table: bool = False,
    ahead: float = 0.0,
) -> tuple[float, float]:
    """The same in given blocks, and the cycles that the NPU computes, under which Vela fetches the constants of the next op."""
    inside, fed = _within(b.ofm, w.ofm), _within(b.ifm, w.ifm)
    n = _units(w.ofm, b.micro) / _units(inside, b.micro)
    waste = (
        _waste(m, place.read, True, place.read_rows, w.bits, b.ifm, w.ifm),
        _waste(m, place.write, False, place.write_rows, out_bits, b.ofm, w.ofm),
    )
    tiles = _units(w.ofm[:2], b.ofm[:2])
    work = _mac_block(m, w, b, inside, fed) / (2 if weights and weights.sparse and m.family.sparse_weights else 1)
    staged, ready = _staging(m, weights, tiles, w.ofm[2], b.ofm[2], n * work) if weights else (False, 0.0)
    source = m.activations if staged else m.constants
    output = max(ceil(path * prod(inside)), SCALES * inside[2] * source.latency / 256 if weights else 0)
    first = place.read.latency + prod(fed) * w.bits / 8 * waste[0] / place.read.bandwidth
    last = place.write.write_latency + prod(inside) * out_bits / 8 * waste[1] / place.write.bandwidth
    issue = ((abs(last - first) if n > 1 else 0) + work + output) / 4
    work, output = max(work, issue), max(output, issue)
    npu = n * max(work, output) + min(work, output) + first + last
    brick = lambda c, rows: c if rows else up(c, 16)  # noqa: E731
    repeats = prod(ceil(k / 8) for k in w.kernel) * (tiles if w.channelwise else tiles * ceil(w.ofm[2] / b.ofm[2]))
    moved = (
        (place.read, fed[0] * fed[1] * brick(w.ifm[2], place.read_rows) * repeats * w.bits / 8 * waste[0]),
        (place.write, prod(w.ofm[:2]) * brick(w.ofm[2], place.write_rows) * out_bits / 8 * waste[1]),
    )
    fixed: list[tuple[Memory, float]] = []
    computed = npu
    if weights:
        fixed = [(m.constants, tiles * SCALES * w.ofm[2]), (source, tiles * weights.encoded)]
        if staged:
            later = max(0.0, weights.encoded - ready)
            fixed += [(m.constants, later), (m.activations, later)]
            npu += _late(m, weights, ready, SCALES * w.ofm[2], npu)
    if table:
        npu += max(0.0, m.constants.latency + _TABLE.get(w.bits // 8, 2048) / m.constants.bandwidth - ahead)
    return max(npu, _memories((*moved, *fixed))), computed


def _memories(moved: tuple[tuple[Memory, float], ...]) -> float:
    """Cycles of the memory that takes longest, or of one kind of access to it."""
    total: dict[Memory, float] = {}
    for memory, count in moved:
        total[memory] = total.get(memory, 0.0) + count
    return max(max(t / memory.bandwidth for memory, t in total.items()), max(t / memory.channel for memory, t in moved))


def _transfer(m: Machine, count: float) -> float:
    source, sink = m.constants, m.activations
    return max(count / source.bandwidth + source.latency, count / sink.bandwidth + source.write_latency)


def _staging(m: Machine, weights: Weights, reads: int, depth: int, slice_depth: int, npu: float) -> tuple[bool, float]:
    """Whether Vela fetches the weights into the memory of the activations, and how many bytes of them before the op starts.

    compiler/scheduler.cpp decides it by trying schedules; this is calibrated on Vela 5.1 (where only shared weights are taken to be
    fetched, the worst of 19 networks on U55 is off by 46 %)."""
    if m.constants == m.activations:
        return False, 0.0
    count = weights.encoded + SCALES * depth
    whole, ahead = _transfer(m, count), weights.ahead or 0.0
    smallest = whole * min(1.0, 16 / depth)
    unmoved = (count / m.constants.bandwidth + m.constants.latency) * reads
    moved = (count / m.activations.bandwidth + m.activations.latency) * reads
    better = moved + max(0.0, whole - ahead) < unmoved
    if weights.whole:
        return better or npu <= unmoved, weights.encoded
    if not (better or reads > 1 and (depth // slice_depth > 2 or smallest < ahead)):
        return False, 0.0
    share = 1.0 if ahead >= whole / 2 else max(min(1.0, 16 / depth), ahead / whole)
    return True, share * weights.encoded


def _late(m: Machine, weights: Weights, ready: float, scales: float, npu: float) -> float:
    """Cycles that the weights come too late: calibrated on Vela 5.1 (without it the worst network on U55 is off by 74 %, of 19)."""
    if weights.ahead is None:
        return 0.0
    if weights.whole:
        return max(0.0, _transfer(m, weights.encoded + scales) - weights.ahead)
    share = ready / max(1.0, weights.encoded)
    return max(
        0.0,
        _transfer(m, ready) - weights.ahead,
        _transfer(m, weights.encoded) - weights.ahead - npu * (1 - share) * share,
    )


def _mac_block(m: Machine, w: Work, b: Block, inside: Shape, fed: Shape) -> float:
    """Cycles of the MAC array for one block.

    Depth first takes the channels of one kernel element at a time, part kernel four kernel elements (two of INT16) of 8 channels.
    """
    h, x, d = (ceil(i / u) for i, u in zip(inside, b.micro))
    size, plane = max(1, w.bits // 8), ceil(inside[0] / b.micro[0]) * ceil(inside[1] / b.micro[1])
    split = m.family.split_outputs
    feed = 32 * b.micro[2] // (8 * (1 if split else m.core.cores))
    total = 0.0
    for y in range(0, w.kernel[0], 8):
        for z in range(0, w.kernel[1], 8):
            taps, slices = min(8, w.kernel[0] - y) * min(8, w.kernel[1] - z), 1
            if w.kind == "pool":
                steps, cycles = 1, max(4, taps) * h * x * d * m.core.pooling * (size if m.core.pooling > 1 else 1)
            elif w.kind == "depthwise":
                steps = ceil(taps / 4)
                cycles = max(feed, 4 * plane * size) * steps * d
            elif b.part_kernel:
                steps, slices = ceil(taps / (2 if w.bits == 16 else 4)), ceil(fed[2] / 8)
                cycles = max(feed, 4 * plane) * steps * d * slices
            else:
                steps = taps
                depth = m.family.mac_depth
                cycles = max(feed, 4 * plane) if depth is None else max(feed, fed[2] // depth * plane) * size
                cycles *= steps * d
            stall = 2 * (steps if d == 1 else (steps - 1) * d) * slices if plane == 1 else 0
            total += cycles + stall
    if w.kind in ("conv", "product", "sum"):
        total *= ceil(w.ifm[2] / fed[2])
    return total // m.core.cores if split else total


def pool(
    m: Machine,
    out: Shape,
    place: Place,
    bits: int = 8,
    path: float | None = None,
    *,
    table: bool = False,
    out_bits: int = 0,
    ahead: float = 0.0,
) -> float:
    """Cycles of what runs as a 1x1 pooling: RESCALE, CLAMP, TABLE, copies, and transposes where those are pooled. A copy of INT32 counts as two of INT16."""
    path = max(m.core.byte, m.core.plain) if path is None else path
    if bits == 32:
        out, bits, out_bits = (out[0], out[1], 2 * out[2]), 16, 16
    return mac(
        m, Work("pool", out, out, bits=bits), place, path=path, out_bits=out_bits or bits, table=table, ahead=ahead
    )


def elementwise(
    m: Machine,
    out: Shape,
    path: float,
    place: Place,
    bits: int = 8,
    out_bits: int = 8,
    operands: int = 2,
    stored: Shape | None = None,
) -> float:
    """Cycles of an elementwise op. stored: shape of the operand that is a constant, in rows: it may be read anew for every output."""
    full = out if place.write_rows else (out[0], out[1], up(out[2], 16))
    read = out if place.read_rows else (out[0], out[1], up(out[2], 16))
    scalar = stored is not None and prod(stored) == 1
    block = (
        (*full[:2], up(full[2], 16))
        if not m.family.blocked_elementwise
        else m.block(Work("elementwise", out, out, bits=bits, scalar=scalar)).ofm
    )
    waste = (
        _waste(m, place.read, True, place.read_rows, bits, block, out),
        _waste(m, place.write, False, place.write_rows, out_bits, block, out),
    )
    npu = (
        prod(full) * path
        if not m.family.blocked_elementwise
        else prod(full) / prod(out) * _blocks(m, out, block, path, place, bits, out_bits)
    )
    moved = [(place.write, prod(full) * out_bits / 8 * waste[1])]
    moved += [(place.read, prod(read) * bits / 8 * waste[0])] * (operands - (stored is not None))
    if stored is not None and not scalar:
        count = prod(read) if m.family.blocked_elementwise else prod(stored)
        moved.append((m.constants, count * bits / 8 * _waste(m, m.constants, True, True, bits, block, stored)))
    return max(npu, _memories(tuple(moved)))


def matmul(m: Machine, batches: int, rows: int, columns: int, depth: int, size: int, place: Place) -> float:
    """Cycles of MATMUL: a product per batch, or per column a product by one row into scratch memory and a REDUCE_SUM."""
    path = max(m.core.byte, m.core.plain)
    if m.family.multiplies_matrices:
        return batches * mac(m, Work("product", (1, rows, depth), (1, rows, columns), bits=8 * size), place, path=path)
    whole, narrowed = (batches, rows, depth), (batches, rows, 1)
    axis, most = (0, 32) if batches > 32 else (1, 64)
    parts = next((d for d in (3, 2) if whole[axis] >= 4 * d), 1) if whole[axis] <= most else 1
    # the blocks are those of a part, so that the sum of one part need not wait for the product of another
    fit, fit_out = (tuple(ceil(d / parts) if k == axis else d for k, d in enumerate(s)) for s in (whole, narrowed))
    block = m.block(Work("elementwise", fit, fit, bits=8 * size)).ofm
    scratch = replace(place, write=m.outer, write_rows=True)
    product = _blocks(m, whole, block, max(m.core.product, m.core.plain), scratch, 8 * size, 32)
    summed = m.block(Work("sum", fit, fit_out, bits=32))
    _, total = mac_and_npu(
        m, Work("sum", whole, narrowed, bits=8 * size), replace(place, read=m.outer, read_rows=True), summed, path
    )
    return columns * (product + total)


def _blocks(m: Machine, shape: Shape, block: Shape, path: float, place: Place, bits: int, out_bits: int) -> float:
    """NPU cycles of an elementwise op: of the output path, or a quarter of what it and a memory take for a block."""
    inside = _within(block, shape)
    first = (
        place.read.latency
        + prod(inside)
        * bits
        / 8
        * _waste(m, place.read, True, place.read_rows, bits, block, shape)
        / place.read.bandwidth
    )
    last = (
        prod(inside)
        * out_bits
        / 8
        * _waste(m, place.write, False, place.write_rows, out_bits, block, shape)
        / place.write.bandwidth
    )
    return prod(shape) * max(path, (max(first, last + place.write.write_latency) / prod(block) + path) / 4)


def transpose(m: Machine, shape: Shape, perm: tuple[int, int, int], size: int, place: Place) -> float:
    """Cycles of one native TRANSPOSE of (h, w, c): a pooling of the result, or of memory alone."""
    out = tuple(shape[p] for p in perm)
    if m.family.transposes.pooled:
        bits = 8 * size
        if bits == 32:
            shape, out, bits = (*shape[:2], 2 * shape[2]), (*out[:2], 2 * out[2]), 16
        work = Work("pool", shape, shape, bits=bits)  # the block is that of what is read
        path = m.core.byte * (2 if perm in m.family.transposes.doubled else 1)
        return mac_and_npu(m, replace(work, ofm=out), place, m.block(work), path, out_bits=bits)[0]
    block = (1, 2, up(min(shape[2], 32), 8))  # of which only the depth matters
    read = prod(shape) * size * _waste(m, place.read, True, True, 8 * size, block, shape)
    write = prod(shape) * size * _waste(m, place.write, False, True, 8 * size, (1, 2, up(min(out[2], 128), 8)), out)
    npu = max(
        read / place.read.bandwidth + place.read.latency, write / place.write.bandwidth + place.write.write_latency
    )
    return max(npu, _memories(((place.read, read), (place.write, write))))
