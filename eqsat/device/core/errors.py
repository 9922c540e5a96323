"""What this room raises."""

from __future__ import annotations


class DeviceError(ValueError):
    """A binary that cannot be read or run: malformed, or with a register, value or mode that the model does not know.
    Never a guess."""


class DeviceFault(DeviceError):
    """What no binary may do: reading or writing outside its memory, or more weights or scales than it has."""
