"""What this room raises."""

from __future__ import annotations


class DeviceError(ValueError):
    """A binary that cannot be read or run: malformed, with a register, value or mode that the model does not know, or that leaves its
    memory. Never a guess."""
