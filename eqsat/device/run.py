"""A functional model of Ethos-U55, U65 and U85, without a notion of time: executes commands in order.

>>> from eqsat.device.run import run                                            # doctest: +SKIP
>>> outputs = run(read_binary(Path("model_vela.npz").read_bytes()), [x])        # doctest: +SKIP

The operations were written from Arm's register descriptions and Vela's generators.
They are validated against the TOSA reference model.
`schedule` checks beforehand whether commands wait for each other and whether blocks have room.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.device.binary import READ_ONLY, Binary, Tensor
from eqsat.device.core.errors import DeviceError, DeviceFault
from eqsat.device.core.memory import MemoryMap
from eqsat.device.core.numbers import NumberMachine
from eqsat.device.core.operands import Stop, Wait
from eqsat.device.schedule import check_commands
from eqsat.tensor.types import Array

#: Exceptions of the model for a binary that it does not understand.
#: It raises DeviceError, which is a ValueError.
#: Python and numpy raise the others if values do not fit together or exceed the memory.
UNKNOWN = (ArithmeticError, AssertionError, LookupError, MemoryError, TypeError, ValueError)


class Device:
    """A binary, ready to run.

    Raises DeviceError if it cannot be decoded.
    Raises DeviceFault if it breaks a rule of the hardware that results do not show (`schedule`).
    """

    def __init__(self, binary: Binary) -> None:
        self.binary = binary
        try:
            self.commands = binary.commands()
            check_commands(self.commands, binary.config)
        except UNKNOWN as e:
            raise _locate(e, "its command stream") from e

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Runs the binary on all samples.

        inputs: [samples, ...], of any shape and type with as many bytes as the binary's inputs.
        Without inputs there is one sample.
        Returns the outputs as signed integers of their size, [samples, ...] in Vela's shapes.
        Raises DeviceError.
        """
        b = self.binary
        if len(inputs) != len(b.inputs):
            raise DeviceError(f"{len(inputs)} inputs for a binary that has {len(b.inputs)}")
        samples = len(inputs[0]) if inputs else 1
        memory = self._memory(samples)
        for k, (x, t) in enumerate(zip(inputs, b.inputs, strict=True)):
            if x.itemsize != t.element or x[0].nbytes != t.bytes:
                raise DeviceError(
                    f"input {k} is {list(t.shape)} of {t.element} byte(s), given {list(x.shape[1:])} of {x.dtype}"
                )
            memory.at(t.region, t.address, t.bytes)[...] = np.ascontiguousarray(x).reshape(samples, -1).view(np.uint8)
        execution = b.config.commands.execution(b.config.core, memory)
        for c in self.commands:
            try:
                if not isinstance(c, Wait | Stop):
                    execution.step(c)
            except UNKNOWN as e:
                raise _locate(e, f"{type(c).__name__} at byte {c.offset:#x}", c.offset) from e
        return [_result(t, memory) for t in b.outputs]

    def _memory(self, samples: int) -> NumberMachine:
        b = self.binary
        sizes = b.regions
        try:
            memory = NumberMachine(samples, sizes, b.config.internal)
        except MemoryError as e:
            raise DeviceError(f"there is no room for {samples} times {sum(sizes.values()):,} bytes of memory") from e
        memory.region(READ_ONLY)[...] = np.frombuffer(b.read_only, np.uint8)
        return memory


def run(binary: Binary, inputs: Sequence[Array]) -> list[Array]:
    """Runs a binary on one sample; inputs and outputs have no axis of samples. Raises DeviceError."""
    return [y[0] for y in Device(binary).run([np.asarray(x)[None] for x in inputs])]


def _locate(e: Exception, where: str, offset: int = -1) -> DeviceError:
    """Returns the error with its place in the binary; offset: of the command, in bytes, unless the error has it."""
    if isinstance(e, DeviceFault):
        return DeviceFault(f"{where}: {e}", max(e.offset, offset))
    if isinstance(e, DeviceError):
        return type(e)(f"{where}: {e}")
    return DeviceError(f"{where}: the model does not understand it ({type(e).__name__}: {e})")


def _result(t: Tensor, memory: MemoryMap) -> Array:
    if t.element not in (1, 2, 4, 8):
        raise DeviceError(f"the model does not know elements of {t.element} bytes")
    raw = np.ascontiguousarray(memory.at(t.region, t.address, t.bytes))
    return raw.view(f"int{8 * t.element}").reshape(-1, *t.shape)
