"""What is asked of a family's commands: one record for each set of them (`eqsat.target.Family.commands`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from eqsat.device.core import words
from eqsat.device.core.block_order import Blocks
from eqsat.device.core.instructions import instructions
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.operands import Stop, Wait
from eqsat.device.core.registers import Layouts
from eqsat.device.core.state import Makers, commands_of
from eqsat.device.core.touched import Accesses
from eqsat.target.family import Core, Family


@dataclass(frozen=True, slots=True, eq=False)
class CommandSet:
    """A set of commands. Its functions take a command that is neither a wait nor the end, and raise DeviceError.

    layouts: what instructions there are. makers: what makes a command of those that are operations.
    execution: begins a run on a memory, whose `step` executes a command.
    accesses: which bytes a command reads and writes, given the bytes of the NPU's own memory.
    blocks: in which blocks it works, None of a copy. no_room: why those cannot be, empty where they can.
    kind, describe: what kind of command it is in a word, and what follows that in its line.
    dependency: the largest BLOCKDEP.
    tables: KiB of the memory of tables; 0 where they lie in the shared memory, whose size a stream's header says.
    """

    layouts: Layouts
    makers: Makers
    execution: Callable[[Core, MemoryMap], Any]
    accesses: Callable[[Any, int], Accesses]
    blocks: Callable[[Any, Core], Blocks | None]
    no_room: Callable[[Any, Family, Core], str]
    kind: Callable[[Any], str]
    describe: Callable[[Any], str]
    dependency: int
    tables: int = 0

    def decoded(self, stream: Sequence[int]) -> Iterator[Any]:
        """The commands of a stream's words, waits and the end among them. Raises DeviceError, also for words
        behind the end."""
        return commands_of(list(instructions(stream, self.layouts)), self.makers)

    def kind_of(self, c: Any) -> str:
        """Also of a wait and the end."""
        return type(c).__name__.lower() if isinstance(c, Wait | Stop) else self.kind(c)

    def line(self, c: Any) -> str:
        """A command in words, also a wait and the end."""
        said = words.wait(c) if isinstance(c, Wait) else "" if isinstance(c, Stop) else self.describe(c)
        return f"{self.kind_of(c)} {said}".rstrip()
