"""What the closed forms are given: an op, the machine that does it, and what its cost depends on besides."""

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
    """What a cost depends on besides the op.

    place: where it reads and writes (None: inner tensors).
    activation: "clamp" or "table" that it carries.
    narrow: its operands are INT8, from RESCALEs that fuse.
    constant: the shape of an operand that is constant.
    ahead: cycles of the op before it (None: not known), during which weights can be fetched.
    narrows: the RESCALE of its result fuses.
    permutation: the one that it writes its result in.
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
        """Bits of an element of the first operand, as it is stored."""
        return 8 * self.size

    @property
    def out_bits(self) -> int:
        """Bits of an element of the result, as it is stored."""
        return 8 * DType.of(self.unit.result.dtype).size

    @property
    def path(self) -> float:
        """Cycles per element of the output path of bytes, with the activation that it carries."""
        carried = {"clamp": self.machine.core.byte, "table": self.machine.looked_up}
        return carried.get(self.setting.activation or "", self.machine.plain)


def spatial(shape: tuple[int, ...]) -> HWC:
    """A shape as (h, w, c): leading axes count as height."""
    shape = (1, 1, 1, *shape)
    return prod(shape[:-2]), shape[-2], shape[-1]


def batches(shape: tuple[int, ...]) -> int:
    """Of an op that Vela does batch by batch."""
    return prod(shape[:-3])
