"""The errors of `eqsat.device`."""

from __future__ import annotations


class DeviceError(ValueError):
    """A binary is malformed, or has a register, value or mode that the model does not know; it never guesses."""


class DeviceFault(DeviceError):
    """A binary does what none may do, such as reading outside its memory, or using more weights than it has.

    offset: of the command that does it, in the stream, in bytes; -1 if unknown.
    """

    def __init__(self, message: str, offset: int = -1) -> None:
        super().__init__(message)
        self.offset = offset
