"""The input of the closed forms: an op, its machine, and all else that its cost depends on."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from cost_models.machine import Machine, Place
from cost_models.protocol import Unit
from eqsat.target import Target
from eqsat.target.family import HWC
from eqsat.tensor.dtypes import DType


@dataclass(frozen=True, slots=True)
class Setting:
    """The surroundings of an op that its cost depends on.

    place      : memories of its operands and result (None: those of inner tensors)
    activation : "clamp" or "table" that is fused into it
    narrow     : whether its operands are INT8, from RESCALEs that fuse
    constant   : the shape of an operand that is constant
    ahead      : cycles of the op before it, during which weights can be fetched (None: not known)
    narrows    : whether the RESCALE of its result fuses
    permutation: the permutation in which it writes its result
    """

    place: Place | None = None
    activation: str | None = None
    narrow: bool = False
    constant: tuple[int, ...] | None = None
    ahead: float | None = None
    narrows: bool = True
    permutation: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An op on a machine, in its setting."""

    target: Target
    machine: Machine
    unit: Unit
    setting: Setting

    @property
    def place(self) -> Place:
        return self.setting.place or Place(self.machine.activations, self.machine.activations)

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

    @property
    def path(self) -> float:
        """Cycles per element of the output path of bytes, with the activation that it carries."""
        carried = {"clamp": self.machine.core.byte, "table": self.machine.looked_up}
        return carried.get(self.setting.activation or "", self.machine.plain)


def spatial(shape: tuple[int, ...]) -> HWC:
    """Returns a shape as (h, w, c); leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


def batches(shape: tuple[int, ...]) -> int:
    """Returns the number of batches of an op that Vela computes batch by batch."""
    return prod(shape[:-3])
