"""Cycles measured on a device, laid beside what a cost model says of the same, and the price of a command that they
bear out.

The fit is `measured = share * priced + price * commands`, least squares of the relative errors, with a share for each
family and one price. It counts only if it is positive whichever model is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Measurement:
    """Cycles of what is called `name`: priced, without anything for its `commands`, and measured."""

    name: str
    family: str
    commands: int
    priced: int
    measured: int


@dataclass(frozen=True, slots=True)
class Fit:
    """shares: by family; price: cycles per command; errors: relative, of each measurement."""

    shares: dict[str, float]
    price: float
    errors: tuple[float, ...]

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))


def fit(given: Sequence[Measurement]) -> Fit:
    """Raises ValueError where there are not more measurements than figures to find."""
    families = sorted({m.family for m in given})
    if len(given) <= len(families) + 1:
        raise ValueError(f"{len(given)} measurements for {len(families) + 1} figures: measure more")
    rows = [[m.priced * (m.family == f) / m.measured for f in families] + [m.commands / m.measured] for m in given]
    found, *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    errors = np.array(rows) @ found - 1
    return Fit(dict(zip(families, found.tolist())), float(found[-1]), tuple(errors.tolist()))


def without_each(given: Sequence[Measurement]) -> dict[str, Fit]:
    """{name: the fit without it}; those that leave too few are left out."""
    parts = {name: [m for m in given if m.name != name] for name in sorted({m.name for m in given})}
    return {name: fit(part) for name, part in parts.items() if len(part) > len({m.family for m in part}) + 1}


def per_command(given: Sequence[Measurement]) -> float:
    """The price that the measurements bear out: 0 where its sign hangs on one of them."""
    found = fit(given).price
    return found if min([found, *(f.price for f in without_each(given).values())]) > 0 else 0.0
