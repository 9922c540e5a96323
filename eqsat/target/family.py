"""The families of accelerators, as records of the traits in which they differ.

Code that treats families differently asks a trait, never a name, so that a new family is a new record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

#: A shape or block (h, w, c), in elements.
HWC = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class SharedMemory:
    """One memory for inputs, outputs, accumulators and tables.

    banks  : number of banks, of 1024 bytes each
    granule: banks that are allocated at a time; twice as many for 32-bit elements and accumulators
    """

    banks: int
    granule: int


@dataclass(frozen=True, slots=True)
class SplitMemory:
    """A memory for inputs and one for accumulators.

    accumulators: bytes of the second one
    units   : for each micro block, the shapes (h, w, granules of 128 bits) in which inputs of up to
        128, up to 256 and more bits of depth are stored
    pooling : the micro blocks that depthwise ops and poolings of INT8 use
    products: the micro blocks that convolutions and products of INT8 use
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

    The others are cycles per element of the output path:

    byte   : bytes
    add    : sum of INT8
    mul    : product of INT8
    wide   : sum or product of INT32
    product: product to INT32
    table  : bytes, followed by a TABLE
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
    start, per_byte, least_bytes: if the shape wastes nothing, a command takes `start` cycles, and
        each element per_byte * max(bytes of an element, least_bytes)
    dtypes: the dtypes that it takes (None: all)
    most_leading: the largest product of all axes but the last two (None: any)
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
    chains: whether Vela can chain a convolution and a sum that reads its result
    commands: the set of commands of its binaries (`COMMAND_SETS` of `eqsat/device/binary.py`)
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


# The figures are from the C++ compiler (regor) of Vela 5: architecture/ethosu55/ethos_u55.cpp, ethosu65/ethos_u65.cpp,
# ethosu85/ethos_u85.cpp, and the *_performance.cpp beside them. Those marked "measured" were measured with Vela 5.1.
# The guards on TRANSPOSE are those of ExecuTorch 1.5 (backends/arm, operator support).
# `tests/vela/test_facts.py` checks the native transposes with the installed Vela.

#: Memory of ethos-u55-32 and -64.
_SMALL = SharedMemory(16, 2)
#: Memory of ethos-u55-128.
_MIDDLE = SharedMemory(24, 4)
#: Memory of ethos-u55-256 and of U65.
_LARGE = SharedMemory(48, 8)

U55 = Family(
    name="u55",
    cores={
        "ethos-u55-32": Core(32, ((1, 1, 4),), 2.0, 6.0, 3.0, 3.0, 3.0, 1.0, _SMALL, pooling=1),
        "ethos-u55-64": Core(64, ((1, 1, 8),), 1.0, 3.0, 1.5, 1.5, 1.5, 1.0, _SMALL),
        "ethos-u55-128": Core(128, ((1, 2, 8),), 0.5, 1.5, 0.75, 1.25, 0.75, 1.0, _MIDDLE),
        "ethos-u55-256": Core(256, ((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 0.5, 1.0, _LARGE),
    },
    # start and per_byte by the price of the commands of int8 tensors of 3k-50k elements
    transposes=Transposes(
        native=((0, 2, 1), (1, 0, 2), (2, 1, 0)),
        pooled=False,
        fused=False,
        doubled=(),
        start=300,
        per_byte=0.52,
        least_bytes=1,
        dtypes=frozenset({"INT8", "INT16", "BOOL"}),
        most_leading=65536,
    ),
    port=8.0,
    bounded_channels=False,
    joined_writes=True,
    copy=2.0,  # measured on ethos-u55-64 to -256; half of it on ethos-u55-32
    largest_block=(32, 64, 128),
    mac_depth=None,
    split_outputs=True,
    sparse_weights=False,
    rescales_wide=False,  # measured
    multiplies_matrices=False,
    products_outside=False,
    chains=False,
    commands=1,
    product=0,
    outstanding_copies=1,
    dedicated_sram=False,
    system_config="Ethos_U55_High_End_Embedded",
    memory_mode="Shared_Sram",
)

U65 = replace(
    U55,
    name="u65",
    cores={
        "ethos-u65-256": Core(256, ((2, 2, 8),), 0.25, 0.75, 0.375, 1.125, 0.5, 1.0, _LARGE),
        "ethos-u65-512": Core(256, ((2, 2, 8),), 0.125, 0.375, 0.1875, 0.5625, 0.25, 0.5, _LARGE, 2),
    },
    transposes=replace(U55.transposes, start=500, per_byte=0.52),
    port=16.0,
    copy=4.0,  # measured between inputs and outputs of a graph, which lie in the memory outside
    dedicated_sram=True,
    system_config="Ethos_U65_High_End",
    memory_mode="Dedicated_Sram_384KB",
    products_outside=True,
    product=1,
    outstanding_copies=2,
)


_KIB = 1024
# Shapes (h, w, granules) of stored inputs by micro block; `SplitMemory.units` explains them.
_SQUARE, _FLAT = ((2, 2, 1), (1, 2, 2), (1, 1, 4)), ((1, 4, 1), (1, 2, 2), (1, 1, 4))
_DEEP, _DEEP_FLAT = ((2, 4, 1), (2, 2, 2), (1, 2, 4)), ((2, 4, 1), (1, 4, 2), (1, 2, 4))
_DEEPEST, _DEEPEST_FLAT = ((4, 4, 1), (2, 4, 2), (2, 2, 4)), ((4, 4, 1), (2, 4, 2), (1, 4, 4))
_TINY = ((1, 2, 1), (1, 1, 2), (1, 1, 2))
# Micro blocks, and memories by the MACs of a U85.
_BLOCKS_1024, _BLOCKS_2048 = ((2, 2, 32), (1, 4, 32), (2, 4, 16)), ((2, 2, 64), (1, 4, 64), (4, 4, 16))
_OF_128 = SplitMemory(8 * _KIB, (_TINY, _TINY), (1,), (0,))
_OF_256 = SplitMemory(16 * _KIB, (_SQUARE, _FLAT, _SQUARE), (0,), (1, 2))
_OF_512 = SplitMemory(32 * _KIB, (_SQUARE, _FLAT), (0, 1), (0, 1))
_OF_1024 = SplitMemory(64 * _KIB, (_DEEP, _DEEP_FLAT, _DEEP), (2,), (0, 1, 2))
_OF_2048 = SplitMemory(128 * _KIB, (_DEEPEST, _DEEPEST_FLAT, _DEEPEST), (2,), (0, 1, 2))

U85 = Family(
    name="u85",
    cores={
        "ethos-u85-128": Core(128, ((1, 2, 8), (1, 1, 16)), 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, _OF_128),
        "ethos-u85-256": Core(256, ((1, 2, 16), (1, 4, 8), (2, 2, 8)), 0.25, 0.25, 0.25, 0.5, 0.25, 0.25, _OF_256),
        "ethos-u85-512": Core(512, ((2, 2, 16), (1, 4, 16)), 0.125, 0.125, 0.125, 0.25, 0.25, 0.125, _OF_512, 2),
        "ethos-u85-1024": Core(1024, _BLOCKS_1024, 0.0625, 0.0625, 0.0625, 0.25, 0.25, 0.0625, _OF_1024, 4),
        "ethos-u85-2048": Core(2048, _BLOCKS_2048, 0.03125, 0.03125, 0.03125, 0.125, 0.125, 0.03125, _OF_2048, 4),
    },
    transposes=Transposes(
        native=((0, 2, 1), (1, 0, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)),
        pooled=True,
        fused=True,
        doubled=((1, 0, 2), (1, 2, 0), (2, 1, 0)),  # measured
        start=300,
        per_byte=0.25,
        least_bytes=2,
    ),
    port=16.0,
    bounded_channels=True,
    joined_writes=False,
    copy=2.4,  # measured: 2.0 to 2.5 on ethos-u85-128 to -1024
    largest_block=(128, 128, 1024),
    mac_depth=8,
    split_outputs=False,
    sparse_weights=True,
    rescales_wide=True,
    multiplies_matrices=True,
    products_outside=False,
    chains=True,
    commands=2,
    product=2,
    outstanding_copies=4,
    dedicated_sram=True,
    system_config="Ethos_U85_SYS_DRAM_Mid",
    memory_mode="Sram_Only",
)

#: All families; a new one is a record above and an entry here.
FAMILIES = (U55, U65, U85)
