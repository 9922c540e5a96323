"""Records of traits that distinguish the families of accelerators.

The families themselves are in `families.py`.
Code that treats families differently asks a trait, never a name, so that a new family is a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

#: A shape or block (h, w, c), in elements.
HWC = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One memory for inputs, outputs, accumulators and tables.

    banks  : how many banks of 1024 bytes it has
    granule: how many banks are allocated at a time

    For 32-bit elements and accumulators twice as many banks are allocated at a time.
    """

    banks: int
    granule: int


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """A memory for inputs and one for accumulators.

    accumulators: bytes of the second one
    units   : [micro block]: three shapes (h, w, granules of 128 bits) in which inputs are stored
    pooling : the micro blocks that depthwise ops and poolings of INT8 use
    products: the micro blocks that convolutions and products of INT8 use

    The shapes in `units` are for inputs of up to 128, up to 256 and more bits of depth.
    """

    accumulators: int
    units: tuple[tuple[HWC, HWC, HWC], ...]
    pooling: tuple[int, ...]
    products: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Core:
    """One accelerator configuration.

    macs   : multiply-accumulate units
    micro  : micro blocks (h, w, c) of the output
    memory : its memory on chip
    cores  : how many cores work on one operator
    pooling: passes per byte of a pooled element

    These are cycles per element of the output path:

    byte   : bytes
    add    : sum of INT8
    mul    : product of INT8
    wide   : sum or product of INT32
    product: product to INT32
    table  : bytes with a TABLE behind
    """

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
    """How a family computes a TRANSPOSE.

    native: the permutations of (H, W, C) that one operator does; any other becomes several
    pooled: whether it runs as a pooling that writes in another order, in bricks of 16 channels;
        otherwise it runs by memory alone, in rows
    fused: whether convolutions, products and poolings write a native one themselves
    doubled: the natives for which the output path takes twice as long
    start, per_byte, least_bytes: cycles of one whose shape wastes nothing, see below
    dtypes: the dtypes that it takes (None: all)
    most_leading: the largest product of all axes but the last two (None: any)

    A command takes `start` cycles, and an element per_byte * max(bytes of an element, least_bytes).
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
        """Returns the native permutation of (H, W, C) that one of NHWC is, None if it is none."""
        hwc = tuple(p - 1 for p in perms[1:])
        return next((p for p in self.native if p == hwc), None) if perms[:1] == (0,) else None


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A family of accelerators.

    name: the middle part of "ethos-u55-128"
    cores: {accelerator name: its configuration}
    transposes: how it reorders data
    port: bytes that an AXI port moves per cycle at a clock scale of one
    bounded_channels: whether one kind of access to a memory has a bandwidth of its own, by the
        accesses that may be outstanding
    joined_writes: whether a burst has what all cores write side by side
    copy: ratio of the cycles of a 1x1 pooling to those of the output path of bytes; a RESCALE,
        CLAMP, TABLE or copy that does not fuse is such a pooling
    largest_block: of an output, in elements
    mac_depth: channels of the input that the MAC array takes in a cycle, depth first (None: those
        of a block in four cycles)
    split_outputs: whether each core computes its part of an output; otherwise all work on the same
        part
    sparse_weights: whether weights take half the time if at most two in four channels are not zero
    rescales_wide: whether a RESCALE from or to INT32 is one operator; otherwise it is a sum and a
        product
    multiplies_matrices: whether MATMUL is one operator per batch; otherwise it is a product and a
        sum per column
    products_outside: whether these products wait in the memory outside; otherwise in SRAM
    chains: whether Vela makes one command of a convolution and a sum that reads its result
    commands: the set of commands of its binaries (`COMMAND_SETS` of `eqsat/device/stream.py`)
    product: its number in the header of a command stream
    outstanding_copies: copies that may be under way at once (Vela's MaxOutstandingDMAOps)
    dedicated_sram: whether it has memory modes in which SRAM is a cache of the NPU's own
    system_config, memory_mode: ExecuTorch's defaults (executorch 1.5,
        backends/arm/ethosu/compile_spec.py)
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
    sparse_weights: bool
    rescales_wide: bool
    multiplies_matrices: bool
    products_outside: bool
    chains: bool
    commands: int
    product: int
    outstanding_copies: int
    dedicated_sram: bool
    system_config: str
    memory_mode: str
