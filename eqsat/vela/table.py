"""Vela's table of a graph: a `Row` for each operator that it schedules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from eqsat.tensor.types import Array
from eqsat.tosa.locations import Origin, Origins

#: Fields that are in JSON as in Vela's own table: as text, under the names of its columns.
_COLUMNS = {"cycles": "op_cycles", "npu_cycles": "npu_cycles", "macs": "mac_count"}


class InSram(NamedTuple):
    """A tensor or buffer in Vela's allocation of SRAM.

    first, last : the steps from which and until which it is needed
    address, end: the bytes from `address` to `end`

    A tensor that a cascade passes on piece by piece takes less than its size.
    """

    name: str
    first: int
    last: int
    address: int
    end: int


@dataclass(frozen=True, slots=True)
class Row:
    """An operator as Vela schedules it, by Vela's name of it and that of its result.

    cycles: as Vela counts them; npu_cycles: those without memory.
    busy_cycles: in which it computes or writes.
    sram_bytes: of SRAM in use meanwhile; weight_bytes: of its encoded weights, without scales; command_bytes: of its
    commands.
    source: the result of the TOSA operator that it is made from, "" where it is made from none.
    calibrated: cycles of its commands by the calibrated price (`cost_models/command_stream.py`).
    mac_cycles, ideal, waiting: as `roofline.over_bound` tells them; origins: those of the TOSA operator. None where
    they were not asked for.
    """

    operator: str
    name: str
    cycles: int
    npu_cycles: int
    macs: int
    busy_cycles: int
    sram_bytes: int
    weight_bytes: int
    command_bytes: int
    source: str = ""
    calibrated: int | None = None
    mac_cycles: float | None = None
    ideal: float | None = None
    waiting: int | None = None
    origins: Origins | None = None

    @property
    def priced(self) -> int:
        """The calibrated cycles, or Vela's if there are none."""
        return self.cycles if self.calibrated is None else self.calibrated

    def record(self) -> dict[str, Any]:
        """Returns the row as JSON holds it, without what is None."""
        out: dict[str, Any] = {"corrected": self.cycles}  # earlier versions had a price of their own
        for f in fields(self):
            value = getattr(self, f.name)
            if f.name in _COLUMNS:
                out[_COLUMNS[f.name]] = str(value)
            elif value is not None:
                out[f.name] = [o.record() for o in value] if f.name == "origins" else value
        return out

    @staticmethod
    def read(record: Mapping[str, Any]) -> Row:
        """Returns the row of a record. Raises KeyError, TypeError, ValueError."""
        known: dict[str, Any] = dict(record)
        known.pop("corrected", None)
        for name, column in _COLUMNS.items():
            known[name] = int(known.pop(column))
        if "origins" in known:
            known["origins"] = tuple(Origin(**o) for o in known["origins"])
        return Row(**known)


def by_node(rows: Iterable[Row], names: Mapping[str, int]) -> dict[int, tuple[int, int]]:
    """Returns {node: (Vela's cycles, calibrated ones) of Vela's operators that are made from it}.

    names: {tensor name: node}.
    An operator without cycles is free or runs as part of another one.
    """
    out: dict[int, tuple[int, int]] = {}
    for row in rows:
        if (node := names.get(row.source)) is not None:
            velas, calibrated = out.get(node, (0, 0))
            out[node] = velas + row.cycles, calibrated + row.priced
    return out


# The bytes of SRAM that are in use at each step of Vela's allocation: fewer than the sizes of all live tensors, since
# an operator in place has the bytes of its operand, and an operand of a CONCAT in place those of the result.


def get_occupied(tensors: Sequence[InSram]) -> list[Array]:
    """Returns the bytes that each tensor occupies at each of its steps, from the first to the last.

    Bytes that several tensors share are counted for the one whose first step is the latest, the last of equal ones.

    >>> [n.tolist() for n in get_occupied([InSram("x", 0, 2, 0, 8), InSram("in place", 2, 3, 0, 8)])]
    [[8, 8, 0], [8, 8]]
    """
    bounds = np.unique([(t.address, t.end) for t in tensors])
    spans = [np.searchsorted(bounds, (t.address, t.end)) for t in tensors]
    holder = np.full((1 + max((t.last for t in tensors), default=0), len(bounds)), -1, np.int32)
    for k in sorted(range(len(tensors)), key=lambda k: tensors[k].first):
        holder[tensors[k].first : tensors[k].last + 1, slice(*spans[k])] = k
    held = (holder[t.first : t.last + 1, slice(*span)] == k for k, (t, span) in enumerate(zip(tensors, spans)))
    return [own @ np.diff(bounds[a : b + 1]) for own, (a, b) in zip(held, spans)]


def in_use(tensors: Sequence[InSram], shares: Sequence[Array]) -> Array:
    """Returns the bytes in use at each step, from those that each tensor occupies (`get_occupied`).

    >>> tensors = [InSram("x", 0, 2, 0, 8), InSram("in place", 2, 3, 0, 8), InSram("y", 3, 3, 8, 12)]
    >>> in_use(tensors, get_occupied(tensors)).tolist()
    [8, 8, 8, 12]
    """
    out = np.zeros(1 + max((t.last for t in tensors), default=0), np.int64)
    for t, own in zip(tensors, shares):
        out[t.first : t.last + 1] += own
    return out
