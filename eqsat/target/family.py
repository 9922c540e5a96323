"""What tells one family of accelerators from another, as records of traits. The families themselves are in
`families.py`.

Everybody who treats families differently asks a trait, never a name, so that a new family is a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: (h, w, c), in elements.
HWC = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One memory for inputs, outputs, accumulators and tables: banks of 1024 bytes, and how many of them are given out
    at a time. For 32-bit elements and accumulators it is twice as many."""

    banks: int
    granule: int


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """A memory for inputs and one for accumulators, in bytes. units: per micro block the (h, w, granules of 128 bits)
    that inputs of up to 128, 256 and more bits of depth are stored in. pooling, products: which micro blocks depthwise
    ops and poolings take, and which convolutions and products of INT8."""

    inputs: int
    accumulators: int
    units: tuple[tuple[HWC, HWC, HWC], ...]
    pooling: tuple[int, ...]
    products: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Core:
    """One accelerator configuration. micro: blocks (h, w, c) of the output, by choice. Cycles per element of the output
    path:
    byte, add (INT8 sum), mul (INT8 product), wide (sum or product of INT32), product (to INT32), table (with a TABLE
    after it).
    cores: how many work on one operator. pooling: passes per byte of a pooled element."""

    macs: int
    micro: tuple[HWC, ...]
    byte: float
    add: float
    mul: float
    wide: float
    product: float
    table: float
    memory: SharedMemory | SplitMemory
    cores: int = 1
    pooling: int = 4


@dataclass(frozen=True, slots=True)
class Transposes:
    """How a TRANSPOSE is done.

    native: the permutations of (H, W, C) that one operator does; any other becomes several.
    pooled: it runs as a pooling that writes in another order, in bricks of 16 channels; else by memory alone, in rows.
    fused: convolutions, products and poolings write a native one themselves.
    doubled: the natives for which the output path takes twice as long.
    start, per_byte, least_bytes: cycles of one whose shape wastes nothing are start + elements * per_byte * bytes of an
    element, which
        count as least_bytes at least.
    dtypes: those that it takes (None: all). most_leading: the largest product of all axes but the last two (None: any).
    """

    native: tuple[tuple[int, int, int], ...]
    pooled: bool
    fused: bool
    doubled: tuple[tuple[int, int, int], ...]
    start: float
    per_byte: float
    least_bytes: int
    dtypes: frozenset[str] | None = None
    most_leading: int | None = None

    def native_of(self, perms: tuple[int, ...]) -> tuple[int, int, int] | None:
        """The native permutation of (H, W, C) that one of NHWC is, None if it is none."""
        hwc = tuple(p - 1 for p in perms[1:])
        return next((p for p in self.native if p == hwc), None) if perms[:1] == (0,) else None


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A family of accelerators.

    name: as in "ethos-u55-128", between the hyphens.
    cores: its configurations, by accelerator name.
    transposes: how it reorders data.
    port: bytes that an AXI port moves per cycle at a clock scale of one.
    bounded_channels: one kind of access to a memory has a bandwidth of its own, by the accesses that may be under way.
    joined_writes: a burst has what all cores write side by side, whatever the version of Vela.
    copy: how many times as long as the output path of bytes a RESCALE, CLAMP, TABLE or copy takes that does not fuse (a
    1x1 pooling).
    largest_block: of an output, in elements.
    mac_depth: channels of the input that the MAC array takes in a cycle, depth first (None: those of a block in four
    cycles).
    split_outputs: several cores compute each its part of an output; else they work on the same.
    filled_depth: multiples of channels that encoded weights are filled up to, part kernel and depth first.
    plain_weights: weights may also be stored as plain bytes.
    sparse_weights: weights of which at most two in four channels are not zero take half the time.
    chained: elementwise ops of one shape run as one chain, where only the next reads the one before.
    scaled_sums: ADD and SUB take operands of any scale; else of some (`cost_models/analytic.py`).
    blocked_elementwise: an elementwise op runs block by block and reads a constant operand anew for every output.
    rescales_wide: a RESCALE from or to INT32 is one operator; else a sum and a product.
    multiplies_matrices: MATMUL is one operator per batch; else a product and a sum per column.
    products_outside: where it is not, the products wait in the memory outside, not in SRAM.
    summed_by_convolution: a REDUCE_SUM of a RESCALE of INT8 is a convolution with ones.
    planes_in_rows: elementwise ops keep tensors of one channel in rows (NHWC), not in bricks.
    commands: which set of commands its binaries are made of (`eqsat/device/command_sets.py`).
    product: its number in the header of a command stream.
    outstanding_copies: how many may be under way (Vela's MaxOutstandingDMAOps).
    system_config, memory_mode: what ExecuTorch compiles for unless it is told (executorch 1.5,
    backends/arm/ethosu/compile_spec.py).
    """

    name: str
    cores: Mapping[str, Core]
    transposes: Transposes
    port: float
    bounded_channels: bool
    joined_writes: bool
    copy: float
    largest_block: HWC
    mac_depth: int | None
    split_outputs: bool
    filled_depth: tuple[int, int]
    plain_weights: bool
    sparse_weights: bool
    chained: bool
    scaled_sums: bool
    blocked_elementwise: bool
    rescales_wide: bool
    multiplies_matrices: bool
    products_outside: bool
    summed_by_convolution: bool
    planes_in_rows: bool
    commands: int
    product: int
    outstanding_copies: int
    system_config: str
    memory_mode: str
