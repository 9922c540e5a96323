"""The interface of a family's commands: one record for each set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.device.core import words
from eqsat.device.core.block_order import Blocks
from eqsat.device.core.instructions import instructions
from eqsat.device.core.machine import Machine
from eqsat.device.core.operands import Stop, Wait
from eqsat.device.core.registers import Layouts
from eqsat.device.core.state import Makers, commands_of
from eqsat.device.core.touched import Accesses
from eqsat.target.family import Core, Family


@dataclass(frozen=True, slots=True, eq=False)
class CommandSet:
    """A set of commands.

    Its functions take a command that is neither a wait nor the end, and raise DeviceError.

    layouts: the instructions of the set.
    makers: the function that makes a command of each operation.
    execution: begins a run on a machine; its `step` executes a command and returns what it computes.
    accesses: the bytes that a command reads and writes, given the bytes of the NPU's own memory.
    blocks: the blocks of a command, None for a copy.
    no_room: why the blocks are impossible, empty if they are possible.
    kind: the kind of a command in one word.
    describe: the text that follows the kind in a command's line.
    dependency: the largest BLOCKDEP.
    tables: KiB of the memory of tables.
    0: tables lie in the shared memory, whose size is in a stream's header.
    """

    layouts: Layouts
    makers: Makers
    execution: Callable[[Core, Machine[Any]], Any]
    accesses: Callable[[Any, int], Accesses]
    blocks: Callable[[Any, Core], Blocks | None]
    no_room: Callable[[Any, Family, Core], str]
    kind: Callable[[Any], str]
    describe: Callable[[Any], str]
    dependency: int
    tables: int = 0

    def decoded(self, stream: Sequence[int]) -> Iterator[Any]:
        """Returns the commands of a stream's words, including waits and the end.

        Raises DeviceError, also for words behind the end.
        """
        return commands_of(list(instructions(stream, self.layouts)), self.makers)

    def kind_of(self, c: Any) -> str:
        """Returns the kind of any command, also of a wait and the end."""
        return type(c).__name__.lower() if isinstance(c, Wait | Stop) else self.kind(c)

    def line(self, c: Any) -> str:
        """Returns the line of text of any command, also of a wait and the end."""
        said = words.wait(c) if isinstance(c, Wait) else "" if isinstance(c, Stop) else self.describe(c)
        return f"{self.kind_of(c)} {said}".rstrip()
