"""Closed forms of Vela 5's estimate: MAC blocks, output path, memories.

Vela is not called at run time.
The formulas are those of its C++ compiler (regor), in the sources that ethos-u-vela publishes:
- architecture/ethosu55/ethos_u55_performance.cpp;
- architecture/ethosu85/ethos_u85_performance.cpp;
- compiler/scheduler.cpp for the weights that are fetched ahead.

An operator takes the larger of the NPU's cycles and of each memory's cycles.
For every block the NPU takes as long as the slower of MAC array and output path (`blocks.py`).
One block of the other and the memory transfers of one block are added, since they do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from cost_models.blocks import BlockConfig, Work, as_shape, up
from cost_models.machine import Machine, Memory, Place
from eqsat.target.family import HWC
from eqsat.vela.broadcasts import Cut, elements_read
from eqsat.vela.bursts import burst

#: Bytes of scale and bias per output channel.
SCALES = 10
#: {bytes of an element: bytes of a lookup table}.
_TABLE = {1: 256, 2: 2048}


def wasted(machine: Machine, memory: Memory, reads: bool, rows: bool, bits: int, block: HWC, shape: HWC) -> float:
    """Returns the ratio of the bytes that a memory moves to the bytes that are needed, >= 1.

    A burst that is shorter than the longest takes as long as that.
    reads: whether it is read or written; rows: whether the tensor is in rows (NHWC), not in bricks.
    bits: of an element; block: the part that is moved at a time, of a tensor of `shape`.
    """
    cores = machine.core.cores if machine.joined_writes and not reads else 1
    return memory.burst / min(memory.burst, burst(reads, rows, bits, block, shape, cores))


def _units(shape: Sequence[int], unit: Sequence[int]) -> int:
    """Returns how many units of this shape cover `shape`."""
    return prod(ceil(d / u) for d, u in zip(shape, unit))


def _within(a: HWC, b: HWC) -> HWC:
    return as_shape(map(min, a, b))


def stored_depth(channels: int, rows: bool) -> int:
    """Returns the channels as they are stored: in rows, or in whole bricks."""
    return channels if rows else up(channels, 16)


@dataclass(frozen=True, slots=True)
class WeightFetch:
    """The constants of a multiply-accumulate op, and when they can be fetched.

    encoded: bytes, encoded
    ahead  : cycles of the op before, during which they can be fetched (None: not known)
    whole  : whether the op shares them with its neighbours and waits for all of them
    sparse : whether at most two of four channels are not zero, which some families skip
    source : the memory from which the op reads them and the scales (None: not known)

    If `source` is known, the cost of bringing them there is not the op's.
    """

    encoded: float
    ahead: float | None = None
    whole: bool = False
    sparse: bool = False
    source: Memory | None = None


def mac(
    machine: Machine,
    work: Work,
    place: Place,
    *,
    path: float,
    out_bits: int = 8,
    table: bool = False,
) -> float:
    """Returns the cycles of an op of the MAC array.

    These are convolutions, products, poolings, sums, and ops that run as a 1x1 pooling.
    path: output cycles per element.
    table: whether a lookup table follows.
    """
    return mac_and_npu(machine, work, place, machine.block(work, table), path, None, out_bits, table)[0]


def mac_and_npu(
    machine: Machine,
    work: Work,
    place: Place,
    blocks: BlockConfig,
    path: float,
    weights: WeightFetch | None = None,
    out_bits: int = 8,
    table: bool = False,
    besides: tuple[tuple[Memory, float], ...] = (),
) -> tuple[float, float]:
    """Returns the cycles of an op of the MAC array in given blocks, and those in which the NPU computes.

    While the NPU computes, Vela fetches the constants of the next op.
    path, table: see `mac`.
    besides: (memory, bytes) that it moves for operators that are chained to it.
    """
    inside, fed = _within(blocks.ofm, work.ofm), _within(blocks.ifm, work.ifm)
    n = _units(work.ofm, blocks.micro) / _units(inside, blocks.micro)
    waste = (
        wasted(machine, place.read, True, place.read_rows, work.bits, blocks.ifm, work.ifm),
        wasted(machine, place.write, False, place.write_rows, out_bits, blocks.ofm, work.ofm),
    )
    tiles = _units(work.ofm[:2], blocks.ofm[:2])
    array = _mac_block(machine, work, blocks, inside, fed)
    if weights and weights.sparse and machine.family.sparse_weights:
        array *= machine.sparse_weights
    told, staged, ready = weights.source if weights else None, False, 0.0
    if weights and told is None:
        staged, ready = _staging(machine, weights, tiles, work.ofm[2], blocks.ofm[2], n * array)
    source = told or (machine.activations if staged else machine.constants)
    output = max(ceil(path * prod(inside)), SCALES * inside[2] * source.latency / 256 if weights else 0)
    first = place.read.reading(prod(fed) * work.bits / 8 * waste[0])
    last = place.write.writing(prod(inside) * out_bits / 8 * waste[1])
    issue = ((abs(last - first) if n > 1 else 0) + array + output) / 4
    array, output = max(array, issue), max(output, issue)
    npu = n * max(array, output) + min(array, output) + first + last
    slices = 1 if work.channelwise else ceil(work.ofm[2] / blocks.ofm[2])
    repeats = prod(ceil(k / 8) for k in work.kernel) * tiles * slices
    read = fed[0] * fed[1] * stored_depth(work.ifm[2], place.read_rows) * repeats * work.bits / 8 * waste[0]
    written = prod(work.ofm[:2]) * stored_depth(work.ofm[2], place.write_rows) * out_bits / 8 * waste[1]
    moved = [(place.read, read), (place.write, written)]
    computed = npu
    if weights:
        moved += [(told or machine.constants, tiles * SCALES * work.ofm[2]), (source, tiles * weights.encoded)]
        if staged:
            later = max(0.0, weights.encoded - ready)
            moved += [(machine.constants, later), (machine.activations, later)]
            npu += _weight_delay(machine, weights, ready, SCALES * work.ofm[2], npu)
    if table:
        npu += machine.constants.reading(_TABLE.get(work.bits // 8, 2048))
    return max(npu, memories((*moved, *besides))), computed


def memories(moved: Sequence[tuple[Memory, float]]) -> float:
    """Returns the cycles of the memory that takes longest, or of one kind of access to it.

    moved: (memory, bytes) of each kind of access.
    """
    total: dict[Memory, float] = {}
    for memory, count in moved:
        total[memory] = total.get(memory, 0.0) + count
    return max(max(t / memory.bandwidth for memory, t in total.items()), max(t / memory.channel for memory, t in moved))


def transfer(source: Memory, sink: Memory, count: float) -> float:
    """Returns the cycles of a copy of `count` bytes from one memory to another (MemToMemCycles)."""
    return max(source.reading(count), sink.writing(count))


def _transfer(machine: Machine, count: float) -> float:
    return transfer(machine.constants, machine.activations, count)


def _staging(
    machine: Machine, weights: WeightFetch, reads: int, depth: int, slice_depth: int, npu: float
) -> tuple[bool, float]:
    """Whether Vela copies the weights into the memory of the activations, and bytes ready at the start.

    reads: how often the op reads the weights.
    compiler/scheduler.cpp decides it by trying schedules; this is calibrated on Vela 5.1.
    If only shared weights are taken to be copied, the worst of 19 networks on U55 is off by 46 %.
    """
    if machine.constants == machine.activations:
        return False, 0.0
    count = weights.encoded + SCALES * depth
    whole, ahead = _transfer(machine, count), weights.ahead or 0.0
    smallest = whole * min(1.0, 16 / depth)
    unmoved, moved = machine.constants.reading(count) * reads, machine.activations.reading(count) * reads
    better = moved + max(0.0, whole - ahead) < unmoved
    if weights.whole:
        return better or npu <= unmoved, weights.encoded
    if not (better or reads > 1 and (depth // slice_depth > 2 or smallest < ahead)):
        return False, 0.0
    share = 1.0 if ahead >= whole / 2 else max(min(1.0, 16 / depth), ahead / whole)
    return True, share * weights.encoded


def _weight_delay(machine: Machine, weights: WeightFetch, ready: float, scales: float, npu: float) -> float:
    """Returns the cycles by which weights come too late; calibrated on Vela 5.1 (up to 74 % off without it)."""
    if weights.ahead is None:
        return 0.0
    if weights.whole:
        return max(0.0, _transfer(machine, weights.encoded + scales) - weights.ahead)
    share = ready / max(1.0, weights.encoded)
    return max(
        0.0,
        _transfer(machine, ready) - weights.ahead,
        _transfer(machine, weights.encoded) - weights.ahead - npu * (1 - share) * share,
    )


def _mac_block(machine: Machine, work: Work, blocks: BlockConfig, inside: HWC, fed: HWC) -> float:
    """Returns the cycles of the MAC array for one block.

    Depth first, it takes the channels of one kernel element at a time.
    Part kernel, it takes four kernel elements (two of INT16) of 8 channels.
    """
    h, x, d = (ceil(i / u) for i, u in zip(inside, blocks.micro))
    size, plane = max(1, work.bits // 8), ceil(inside[0] / blocks.micro[0]) * ceil(inside[1] / blocks.micro[1])
    split = machine.family.split_outputs
    feed = 32 * blocks.micro[2] // (8 * (1 if split else machine.core.cores))
    total = 0.0
    for y in range(0, work.kernel[0], 8):
        for z in range(0, work.kernel[1], 8):
            taps, slices = min(8, work.kernel[0] - y) * min(8, work.kernel[1] - z), 1
            steps: float
            cycles: float
            if work.kind == "pool":
                steps = 1
                cycles = max(4, taps) * h * x * d * machine.core.pooling * (size if machine.core.pooling > 1 else 1)
                cycles *= machine.planes if work.ofm[2] == 1 else 1
            elif work.kind == "depthwise":
                steps = ceil(taps / machine.filled_taps) * machine.filled_taps / 4
                cycles = max(feed, 4 * plane * size) * steps * d
            elif blocks.part_kernel:
                steps, slices = ceil(taps / (2 if work.bits == 16 else 4)), ceil(fed[2] / 8)
                cycles = max(feed, 4 * plane) * steps * d * slices * (machine.single_tap if taps == 1 else 1)
            else:
                steps = taps
                depth = machine.family.mac_depth
                cycles = max(feed, 4 * plane) if depth is None else max(feed, fed[2] // depth * plane) * size
                cycles *= steps * d
            stall = 2 * (steps if d == 1 else (steps - 1) * d) * slices if plane == 1 else 0
            total += cycles + stall
    if work.kind in ("conv", "product", "sum"):
        filled = min(fed[2], machine.filled_inputs or fed[2])
        total *= up(work.ifm[2], filled) / fed[2]
    return total // machine.core.cores if split else total


def elementwise(
    machine: Machine,
    out: HWC,
    path: float,
    place: Place,
    bits: int = 8,
    out_bits: int = 8,
    read: Sequence[HWC] = (),
    stored: HWC | None = None,
    block: HWC | None = None,
) -> float:
    """Returns the cycles of an elementwise op.

    out: the shape of the result.
    path: output cycles per element.
    bits, out_bits: of an element of the operands and of the result.
    read: shapes of the operands that are not constant; empty for one operand of the result's shape.
    stored: the shape of a constant operand, in rows.
    block: the block of the output, if it is known.
    An operand that broadcasts is read once a block (`eqsat/vela/broadcasts.py`).
    """
    full = (*out[:2], stored_depth(out[2], place.write_rows))
    blocked, scalar = machine.family.blocked_elementwise, stored is not None and prod(stored) == 1
    if block is None and blocked:
        block = machine.block(Work("elementwise", out, out, bits=bits, scalar=scalar)).ofm
    elif block is None:
        block = (*full[:2], up(full[2], 16))
    npu = prod(full) * path
    if blocked:
        npu = prod(full) / prod(out) * by_block(machine, out, block, path, place, bits, out_bits)
    waste = wasted(machine, place.write, False, place.write_rows, out_bits, block, out)
    moved = [(place.write, prod(full) * out_bits / 8 * waste)]
    sources = [(place.read, place.read_rows, shape) for shape in read or (out,)]
    if stored is not None:
        sources.append((machine.constants, True, stored))
    for memory, rows, shape in sources:
        if prod(shape) > 1 or prod(out) == 1:
            count = elements_in_blocks(shape, out, block) if blocked else prod(shape)
            moved.append((memory, operand_bytes(machine, memory, rows, bits, block, shape, out, count)))
    return max(npu, memories(moved))


def elements_in_blocks(shape: HWC, out: HWC, block: HWC) -> int:
    """Returns the elements that are read of an operand of an elementwise op.

    An operand that broadcasts is read once for each block of the result.
    """
    return elements_read((1, *shape), (1, *out), Cut((1, *out), (1, *block)))


def operand_bytes(
    machine: Machine, memory: Memory, rows: bool, bits: int, block: HWC, shape: HWC, out: HWC, count: int
) -> float:
    """Returns the bytes that a memory moves for `count` elements of an operand of an elementwise op.

    They include the bytes that short bursts waste.
    """
    inside = _within(block, shape)
    stored = count / shape[2] * stored_depth(shape[2], rows)
    return stored * bits / 8 * wasted(machine, memory, True, rows, bits, block if shape == out else inside, shape)


def matmul(machine: Machine, batches: int, rows: int, columns: int, depth: int, size: int, place: Place) -> float:
    """Returns the cycles of MATMUL.

    size: bytes of an element.
    It is one product per batch if the family multiplies matrices.
    Otherwise each column takes a product by one row into scratch memory and a REDUCE_SUM.
    """
    path = machine.plain
    if machine.family.multiplies_matrices:
        return batches * mac(
            machine, Work("product", (1, rows, depth), (1, rows, columns), bits=8 * size), place, path=path
        )
    whole, narrowed = (batches, rows, depth), (batches, rows, 1)
    axis, most = (0, 32) if batches > 32 else (1, 64)
    parts = next((d for d in (3, 2) if whole[axis] >= 4 * d), 1) if whole[axis] <= most else 1
    # blocks of a part: the sum of one part need not wait for the product of another
    fit, fit_out = (as_shape(ceil(d / parts) if k == axis else d for k, d in enumerate(s)) for s in (whole, narrowed))
    block = machine.block(Work("elementwise", fit, fit, bits=8 * size)).ofm
    scratch = replace(place, write=machine.outer, write_rows=True)
    product = by_block(machine, whole, block, max(machine.core.product, machine.plain), scratch, 8 * size, 32)
    summed = machine.block(Work("sum", fit, fit_out, bits=32))
    _, total = mac_and_npu(
        machine,
        Work("sum", whole, narrowed, bits=8 * size),
        replace(place, read=machine.outer, read_rows=True),
        summed,
        path,
    )
    return columns * (product + total)


def by_block(machine: Machine, shape: HWC, block: HWC, path: float, place: Place, bits: int, out_bits: int) -> float:
    """Returns the NPU cycles of an elementwise op that runs block by block.

    Each element takes the larger of these:
    - the cycles of the output path;
    - a quarter of its share of the cycles of a block, for path and memory.
    """
    inside = _within(block, shape)
    read = prod(inside) * bits / 8 * wasted(machine, place.read, True, place.read_rows, bits, block, shape)
    waste = wasted(machine, place.write, False, place.write_rows, out_bits, block, shape)
    written = prod(inside) * out_bits / 8 * waste
    transfer_cycles = max(place.read.reading(read), place.write.writing(written))
    return prod(shape) * max(path, (transfer_cycles / prod(block) + path) / 4)


def transpose(machine: Machine, shape: HWC, perm: tuple[int, int, int], size: int, place: Place) -> float:
    """Returns the cycles of one native TRANSPOSE of (h, w, c).

    In some families it is a pooling of the result, in others one or many 1x1 poolings.
    size: bytes of an element.
    """
    out = as_shape(shape[p] for p in perm)
    if machine.family.transposes.pooled:
        bits = 8 * size
        if bits == 32:
            shape, out, bits = (*shape[:2], 2 * shape[2]), (*out[:2], 2 * out[2]), 16
        work = Work("pool", shape, shape, bits=bits)  # the block is that of the operand
        path = machine.core.byte * (2 if perm in machine.family.transposes.doubled else 1)
        return mac_and_npu(machine, replace(work, ofm=out), place, machine.block(work), path, out_bits=bits)[0]
    commands, part = split_transpose(shape, perm)
    rows = replace(place, read_rows=True, write_rows=True)
    one = mac(machine, Work("pool", part, part, bits=8 * size), rows, path=machine.core.byte, out_bits=8 * size)
    return commands * one + (commands - 1) * machine.per_command


def split_transpose(shape: HWC, perm: tuple[int, int, int]) -> tuple[int, HWC]:
    """Returns how many commands a native TRANSPOSE of U55 and U65 is, and the part of the operand that each copies.

    An axis that stays between two that change places takes a command for each of its elements, of planes of depth 1.
    """
    h, w, c = shape
    return {(0, 2, 1): (h, (w, c, 1)), (2, 1, 0): (w, (h, c, 1))}.get(perm, (1, shape))
