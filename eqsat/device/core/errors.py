"""The errors of `eqsat.device`."""

from __future__ import annotations


class DeviceError(ValueError):
    """A binary cannot be read or run.

    It is malformed, or has a register, value or mode that the model does not know.
    The model never guesses.
    """


class DeviceFault(DeviceError):
    """A binary does what none may do.

    It reads or writes outside its memory, or uses more weights or scales than it has.
    """
