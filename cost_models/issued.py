"""The common part of the prices of command streams of all families."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cost_models.machine import Machine, Memory
from eqsat.device.binary import READ_ONLY, SCRATCH_FAST
from eqsat.device.core.operands import FeatureMap
from eqsat.device.core.registers import ActivationFormat
from eqsat.target.family import HWC

#: The NPU's own memory, as one side of a copy.
_NPU_MEMORY = Memory(float("inf"), 0, 1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A command, or several that run as one chain.

    kinds : convolution, pooling, elementwise, resize or copy, for each
    cycles: of all of them
    """

    kinds: tuple[str, ...]
    cycles: float


def memory(machine: Machine, region: int | None) -> Memory:
    """Returns the memory in which a region lies; region None is the NPU's own memory."""
    if region is None:
        return _NPU_MEMORY
    return {READ_ONLY: machine.constants, SCRATCH_FAST: machine.activations}.get(region, machine.outer)


def anywhere(m: FeatureMap) -> FeatureMap:
    """Returns the feature map at address 0.

    Its address does not change a price.
    So the thousands of commands of a TRANSPOSE are priced once.
    """
    return replace(m, bases=(0, 0, 0, 0))


def size(m: FeatureMap) -> HWC:
    """Returns (h, w, c) of a feature map."""
    return m.height, m.width, m.depth


def rows(m: FeatureMap) -> bool:
    """Whether a feature map lies in rows, not in bricks."""
    return m.format == ActivationFormat.NHWC
