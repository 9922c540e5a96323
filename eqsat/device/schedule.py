"""Whether commands wait for each other as they must.

The NPU works on a command while it reads the next ones.
Kernels (convolutions, poolings, elementwise operations) have one queue, copies have another.
Between the queues only OP_KERNEL_WAIT and OP_DMA_WAIT say that a command is done.
Within the queue of kernels BLOCKDEP says it (`block_order`).
A stream whose results depend on which command is faster is faulty.
The functional model cannot show this, since it has no notion of time.

How many commands may be under way is taken from Vela, and so is the order of copies.
The files are `ethosu55/ethos_u55.hpp`, `ethosu65/ethos_u65.hpp` and `ethosu85/ethos_u85.hpp`.
The names are MaxOutstandingKernelOps, MaxOutstandingDMAOps and MaxBlockdep.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eqsat.device.core.block_order import Blocks, most_dependency
from eqsat.device.core.errors import DeviceFault
from eqsat.device.core.operands import Dma, Stop, Wait
from eqsat.device.core.touched import Accesses
from eqsat.device.stream import Config

#: Most kernels under way at a time (Vela's MaxOutstandingKernelOps).
_KERNELS = 2

_UnderWay = list[tuple[str, Accesses]]


def check_commands(commands: Sequence[Any], config: Config) -> None:
    """Checks the blocks of all commands and the waits between them.

    Raises DeviceFault if a command's blocks have no room inside the NPU.
    Raises DeviceFault if a command may touch bytes that an earlier one still uses.
    """
    for c in commands:
        reason = "" if isinstance(c, Wait | Stop) else config.commands.no_room(c, config.family, config.core)
        if reason:
            raise DeviceFault(f"{_name(c)}: {reason}", c.offset)
    _check_queues(commands, config)
    _check_dependencies(commands, config)


def _name(c: Any) -> str:
    return f"{type(c).__name__} at byte {c.offset:#x}"


def _check_queues(commands: Sequence[Any], config: Config) -> None:
    kernels: _UnderWay = []
    copies: _UnderWay = []
    for c in commands:
        if isinstance(c, Wait):
            queue = kernels if c.kernel else copies
            del queue[: max(0, len(queue) - c.outstanding)]
            continue
        if isinstance(c, Stop):
            continue
        mine, is_copy = config.commands.accesses(c, config.internal), isinstance(c, Dma)
        for other, theirs in kernels if is_copy else copies:
            if mine.conflicts(theirs):
                raise DeviceFault(f"{_name(c)} does not wait for {other}, which touches the same bytes", c.offset)
        queue, limit = (copies, config.family.outstanding_copies) if is_copy else (kernels, _KERNELS)
        queue.append((_name(c), mine))
        del queue[: max(0, len(queue) - limit)]


def _check_dependencies(commands: Sequence[Any], config: Config) -> None:
    most = config.commands.dependency
    before: Blocks | None = None
    for c in commands:
        if isinstance(c, Wait) and c.kernel and not c.outstanding:
            before = None
        blocks = None if isinstance(c, Wait | Stop) else config.commands.blocks(c, config.core)
        if blocks is None:
            continue
        if before is not None and blocks.dependency > (allowed := most_dependency(before, blocks, most)):
            raise DeviceFault(
                f"{_name(c)} may begin {blocks.dependency} blocks before the kernel before it is done, "
                f"of which it reads what is written {allowed} blocks before its end",
                c.offset,
            )
        before = blocks
