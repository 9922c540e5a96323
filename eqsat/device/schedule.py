"""Whether commands wait for each other as they must.

The NPU works on a command while it reads the next ones: kernels (convolutions, poolings, elementwise operations) in
one queue, copies in another. Between the queues only OP_KERNEL_WAIT and OP_DMA_WAIT say what is done; within that of
kernels it is BLOCKDEP (`block_order`). A stream whose results depend on who is faster is at fault, whatever the
functional model computes, which has no notion of time.

How many may be under way, and that copies are done in their order, is Vela's (`ethosu55/ethos_u55.hpp`,
`ethosu65/ethos_u65.hpp`, `ethosu85/ethos_u85.hpp`: MaxOutstandingKernelOps, MaxOutstandingDMAOps, MaxBlockdep).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from eqsat.device.core.block_order import Blocks, most_dependency
from eqsat.device.core.errors import DeviceFault
from eqsat.device.core.operands import Wait
from eqsat.device.core.touched import Accesses
from eqsat.device.ethos_u55 import accesses as u55
from eqsat.device.ethos_u55.commands import Command, Dma
from eqsat.device.ethos_u85 import accesses as u85
from eqsat.device.ethos_u85 import commands as ethos_u85
from eqsat.device.shared_memory import check_blocks
from eqsat.device.stream import Config

#: Kernels that may be under way in every family; by product (U55, U65, U85) copies, and the largest BLOCKDEP.
_KERNELS = 2
_COPIES = (1, 2, 4)
_MOST = (3, 3, 7)

_UnderWay = list[tuple[str, Accesses]]
_Commands = Sequence[Command] | Sequence[ethos_u85.Command]


def check_commands(commands: _Commands, config: Config) -> None:
    """Raises DeviceFault where a command's blocks have no room inside the NPU, or where it may touch what another one
    is not done with."""
    is_u85 = config.family.commands == 2
    shared, core = config.internal, config.core
    touched: Callable[[Any], Accesses | None] = u85.accesses if is_u85 else lambda c: u55.accesses(c, shared)
    in_blocks: Callable[[Any], Blocks | None] = (lambda c: u85.blocks(c, core)) if is_u85 else u55.blocks
    for c in commands:
        check_blocks(c, config.family, core)
    _check_queues(commands, touched, config.product)
    _check_dependencies(commands, in_blocks, _MOST[config.product])


def _name(c: Command | ethos_u85.Command) -> str:
    return f"{type(c).__name__} at byte {c.offset:#x}"


def _check_queues(commands: _Commands, touched: Callable[[Any], Accesses | None], product: int) -> None:
    kernels: _UnderWay = []
    copies: _UnderWay = []
    for c in commands:
        if isinstance(c, Wait):
            queue = kernels if c.kernel else copies
            del queue[: max(0, len(queue) - c.outstanding)]
            continue
        mine = touched(c)
        if mine is None:
            continue
        is_copy = isinstance(c, Dma | ethos_u85.Dma)
        for other, theirs in kernels if is_copy else copies:
            if mine.conflicts(theirs):
                raise DeviceFault(f"{_name(c)} does not wait for {other}, which touches the same bytes")
        queue, limit = (copies, _COPIES[product]) if is_copy else (kernels, _KERNELS)
        queue.append((_name(c), mine))
        del queue[: max(0, len(queue) - limit)]


def _check_dependencies(commands: _Commands, in_blocks: Callable[[Any], Blocks | None], most: int) -> None:
    before: Blocks | None = None
    for c in commands:
        if isinstance(c, Wait) and c.kernel and not c.outstanding:
            before = None
        blocks = in_blocks(c)
        if blocks is None:
            continue
        if before is not None and blocks.dependency > (allowed := most_dependency(before, blocks, most)):
            raise DeviceFault(
                f"{_name(c)} may begin {blocks.dependency} blocks before the kernel before it is done, "
                f"of which it reads what is written {allowed} blocks before its end"
            )
        before = blocks
