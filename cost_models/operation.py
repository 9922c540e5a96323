"""The input of the closed forms: an op on a machine."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cost_models.machine import Machine, Place
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.target.family import HWC
from eqsat.tensor.dtypes import DType


@dataclass(frozen=True, slots=True)
class Operation:
    """An op on a machine, whose operands and result lie where inner tensors do."""

    target: Target
    machine: Machine
    unit: Unit

    @property
    def place(self) -> Place:
        return Place(self.machine.activations, self.machine.activations)

    @property
    def size(self) -> int:
        """Bytes of an element of the first operand."""
        return DType.of(self.unit.operands[0].dtype).size if self.unit.operands else 1

    @property
    def bits(self) -> int:
        """Bits of a stored element of the first operand."""
        return 8 * self.size

    @property
    def out_bits(self) -> int:
        """Bits of a stored element of the result."""
        return 8 * DType.of(self.unit.result.dtype).size


def spatial(shape: tuple[int, ...]) -> HWC:
    """Returns a shape as (h, w, c); leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


def batches(shape: tuple[int, ...]) -> int:
    """Returns the number of batches of an op that Vela computes batch by batch."""
    return prod(shape[:-3])
