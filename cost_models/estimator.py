"""The cycles of one operator by Vela's formulas: MAC blocks, output path, memories.

The formulas are those of its C++ compiler (regor), in the sources that ethos-u-vela publishes:
- architecture/ethosu55/ethos_u55_performance.cpp;
- architecture/ethosu85/ethos_u85_performance.cpp.

An operator takes the larger of the NPU's cycles and of each memory's cycles.
For every block the NPU takes as long as the slower of MAC array and output path (`blocks.py`).
One block of the other and the memory transfers of one block are added, since they do not overlap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, prod

from cost_models.blocks import BlockConfig, Work, as_shape, up
from cost_models.machine import Machine, Memory, Place
from eqsat.target.family import HWC

#: Bytes of scale and bias per output channel.
SCALES = 10


def estimate_waste(
    machine: Machine, memory: Memory, reads: bool, rows: bool, bits: int, block: HWC, shape: HWC
) -> float:
    """Returns the ratio of the bytes that a memory moves to the bytes that are needed, >= 1.

    A burst that is shorter than the longest takes as long as that.
    reads: whether it is read or written; rows: whether the tensor is in rows (NHWC), not in bricks.
    bits: of an element; block: the part that is moved at a time, of a tensor of `shape`.
    """
    cores = machine.core.cores if machine.family.joined_writes and not reads else 1
    return memory.burst / min(memory.burst, _burst(reads, rows, bits, block, shape, cores))


def _burst(reads: bool, rows: bool, bits: int, block: HWC, shape: HWC, cores: int) -> int:
    """Returns the contiguous bytes of the part of a feature map that a block takes; arguments as in `estimate_waste`.

    cores: how many cores write side by side.
    Source: Vela's EstimateMemoryTransfer (ethos_u55_performance.cpp and ethos_u85_performance.cpp).
    """
    whole = bits * block[1] * block[2]
    if not rows:
        length = whole if shape[1] * bits * 2 == block[2] else 16 * bits * block[1] * cores
    elif shape[2] * bits // 8 == block[2] and (reads or block[2] <= 16):
        length = whole
    else:
        length = bits * block[2] if reads else min(512, 16 * bits * cores, bits * block[2])
    return max(1, length // 8)


def _units(shape: Sequence[int], unit: Sequence[int]) -> int:
    """Returns how many units of this shape cover `shape`."""
    return prod(ceil(d / u) for d, u in zip(shape, unit))


def within(a: HWC, b: HWC) -> HWC:
    return as_shape(map(min, a, b))


def round_depth(channels: int, rows: bool) -> int:
    """Returns the channels as they are stored: in rows, or in whole bricks."""
    return channels if rows else up(channels, 16)


@dataclass(frozen=True, slots=True)
class WeightFetch:
    """The weights of a multiply-accumulate op.

    encoded: bytes, encoded
    source : the memory from which the op reads them and the scales; bringing them there is not its work
    sparse : whether at most two of four channels are not zero, which some families skip
    """

    encoded: float
    source: Memory
    sparse: bool = False


def mac(
    machine: Machine,
    work: Work,
    place: Place,
    blocks: BlockConfig,
    path: float,
    weights: WeightFetch | None = None,
    out_bits: int = 8,
    besides: tuple[tuple[Memory, float], ...] = (),
) -> float:
    """Returns the cycles of an op of the MAC array in given blocks.

    These are convolutions, products, poolings, sums, and ops that run as a 1x1 pooling.
    path: output cycles per element.
    besides: (memory, bytes) that it moves for operators that are chained to it.
    """
    inside, fed = within(blocks.ofm, work.ofm), within(blocks.ifm, work.ifm)
    n = _units(work.ofm, blocks.micro) / _units(inside, blocks.micro)
    waste = (
        estimate_waste(machine, place.read, True, place.read_rows, work.bits, blocks.ifm, work.ifm),
        estimate_waste(machine, place.write, False, place.write_rows, out_bits, blocks.ofm, work.ofm),
    )
    tiles = _units(work.ofm[:2], blocks.ofm[:2])
    array = _mac_block(machine, work, blocks, inside, fed)
    if weights and weights.sparse and machine.family.sparse_weights:
        array *= machine.measured.sparse_weights
    output = max(ceil(path * prod(inside)), SCALES * inside[2] * weights.source.latency / 256 if weights else 0)
    first = place.read.reading(prod(fed) * work.bits / 8 * waste[0])
    last = place.write.writing(prod(inside) * out_bits / 8 * waste[1])
    issue = ((abs(last - first) if n > 1 else 0) + array + output) / 4
    array, output = max(array, issue), max(output, issue)
    npu = n * max(array, output) + min(array, output) + first + last
    slices = 1 if work.channelwise else ceil(work.ofm[2] / blocks.ofm[2])
    repeats = prod(ceil(k / 8) for k in work.kernel) * tiles * slices
    read = fed[0] * fed[1] * round_depth(work.ifm[2], place.read_rows) * repeats * work.bits / 8 * waste[0]
    written = prod(work.ofm[:2]) * round_depth(work.ofm[2], place.write_rows) * out_bits / 8 * waste[1]
    moved = [(place.read, read), (place.write, written)]
    if weights:
        moved += [(weights.source, tiles * SCALES * work.ofm[2]), (weights.source, tiles * weights.encoded)]
    return max(npu, memories((*moved, *besides)))


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
                cycles *= machine.measured.planes if work.ofm[2] == 1 else 1
            elif work.kind == "depthwise":
                steps = ceil(taps / machine.measured.filled_taps) * machine.measured.filled_taps / 4
                cycles = max(feed, 4 * plane * size) * steps * d
            elif blocks.part_kernel:
                steps, slices = ceil(taps / (2 if work.bits == 16 else 4)), ceil(fed[2] / 8)
                cycles = max(feed, 4 * plane) * steps * d * slices * (machine.measured.single_tap if taps == 1 else 1)
            else:
                steps = taps
                depth = machine.family.mac_depth
                cycles = max(feed, 4 * plane) if depth is None else max(feed, fed[2] // depth * plane) * size
                cycles *= steps * d
            stall = 2 * (steps if d == 1 else (steps - 1) * d) * slices if plane == 1 else 0
            total += cycles + stall
    if work.kind in ("conv", "product", "sum"):
        filled = min(fed[2], machine.measured.filled_inputs or fed[2])
        total *= up(work.ifm[2], filled) / fed[2]
    return total // machine.core.cores if split else total


def by_block(machine: Machine, shape: HWC, block: HWC, path: float, place: Place, bits: int, out_bits: int) -> float:
    """Returns the NPU cycles of an elementwise op that runs block by block.

    Each element takes max(p, (p + t) / 4): p cycles of the output path, t as its share of the transfer of a block.
    """
    inside = within(block, shape)
    read = prod(inside) * bits / 8 * estimate_waste(machine, place.read, True, place.read_rows, bits, block, shape)
    waste = estimate_waste(machine, place.write, False, place.write_rows, out_bits, block, shape)
    written = prod(inside) * out_bits / 8 * waste
    transfer_cycles = max(place.read.reading(read), place.write.writing(written))
    return prod(shape) * max(path, (transfer_cycles / prod(block) + path) / 4)
