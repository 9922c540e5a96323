"""What the prices of command streams are made from, whichever family they are for."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cost_models.machine import Machine, Memory
from eqsat.device.binary import READ_ONLY, SCRATCH_FAST
from eqsat.device.core.operands import FeatureMap
from eqsat.device.core.registers import ActivationFormat
from eqsat.target.family import HWC

#: The NPU's own memory, as a side of a copy.
_INSIDE = Memory(float("inf"), 0, 1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A command, or several that run as one chain: the kind of each (convolution, pooling, elementwise, resize, copy)
    and the cycles of all."""

    kinds: tuple[str, ...]
    cycles: float


def memory(machine: Machine, region: int | None) -> Memory:
    """Which a region lies in; None: the NPU's own."""
    if region is None:
        return _INSIDE
    return {READ_ONLY: machine.constants, SCRATCH_FAST: machine.activations}.get(region, machine.outer)


def anywhere(m: FeatureMap) -> FeatureMap:
    """Without its place, which does not decide a price: thousands of commands of a TRANSPOSE are priced once."""
    return replace(m, bases=(0, 0, 0, 0))


def size(m: FeatureMap) -> HWC:
    return m.height, m.width, m.depth


def rows(m: FeatureMap) -> bool:
    """Whether it lies in rows, not in bricks."""
    return m.format == ActivationFormat.NHWC
