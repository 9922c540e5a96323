"""The common part of the prices of command streams of all families."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from cost_models.blocks import Work
from cost_models.estimator import WeightFetch
from cost_models.machine import Machine, Memory
from eqsat.device.binary import READ_ONLY, SCRATCH_FAST
from eqsat.device.core.operands import ByteRange, FeatureMap, Kernel
from eqsat.device.core.registers import ActivationFormat
from eqsat.target.family import HWC

#: The NPU's own memory, as one side of a copy.
_NPU_MEMORY = Memory(float("inf"), 0, 1)


@dataclass(frozen=True, slots=True)
class Issued:
    """A command, or several that run as one chain.

    kinds : convolution, pooling, elementwise, resize or copy, for each
    cycles: of all of them
    offset: in the stream, of the first one
    again : whether it differs from the command before in addresses alone
    """

    kinds: tuple[str, ...]
    cycles: float
    offset: int
    again: bool = False


def memory(machine: Machine, region: int | None) -> Memory:
    """Returns the memory in which a region lies; region None is the NPU's own memory."""
    if region is None:
        return _NPU_MEMORY
    return {READ_ONLY: machine.constants, SCRATCH_FAST: machine.activations}.get(region, machine.outer)


def without_addresses(command: Any) -> Any:
    """Returns a command without addresses, which do not change its price.

    So the thousands of commands of a TRANSPOSE are priced once.
    """
    reads = {name: _move(getattr(command, name)) for name in ("ifm", "ifm2", "operands") if hasattr(command, name)}
    return replace(command, offset=0, output=replace(command.output, map=_move(command.output.map)), **reads)


def _move(operand: Any) -> Any:
    """Returns an operand, or each of several, with a feature map at address 0."""
    if isinstance(operand, tuple):
        return tuple(map(_move, operand))
    return replace(operand, bases=(0, 0, 0, 0)) if isinstance(operand, FeatureMap) else operand


def array_work(kind: str, kernel: Kernel, read: FeatureMap, shape: HWC) -> Work:
    """Returns the work of a convolution or pooling of `read` that gives `shape`."""
    window = kernel.height, kernel.width
    return Work(kind, size(read), shape, window, kernel.stride, kernel.dilation, read.element.bits)


def weight_fetch(machine: Machine, weights: Sequence[ByteRange], sparse: bool = False) -> WeightFetch:
    """Returns the fetch of weights from the memory in which they lie."""
    return WeightFetch(sum(w.length for w in weights), memory(machine, weights[0].region), sparse)


def size(m: FeatureMap) -> HWC:
    """Returns (h, w, c) of a feature map."""
    return m.height, m.width, m.depth


def rows(m: FeatureMap) -> bool:
    """Whether a feature map lies in rows, not in bricks."""
    return m.format == ActivationFormat.NHWC
