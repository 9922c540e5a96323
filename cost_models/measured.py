"""Cycles measured on a device beside the price by a cost model, and the price of a command from both.

The fit is `measured = share * priced + price * commands`, by least squares of the relative errors.
There is a share for each family and one price of a command.
The price counts only if it stays positive whichever model is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class Measurement:
    """Cycles of one model, called `name`.

    commands: how many its stream has
    priced  : cycles by the cost model, without a price for commands
    measured: cycles on the device
    """

    name: str
    family: str
    commands: int
    priced: int
    measured: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a fit.

    shares: {family: factor of the priced cycles}
    price : cycles per command
    errors: the relative error of each measurement
    """

    shares: dict[str, float]
    price: float
    errors: tuple[float, ...]

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))


def fit(given: Sequence[Measurement]) -> Fit:
    """Fits the shares and the price to measurements.

    Raises ValueError if there are not more measurements than figures to find.
    """
    families = sorted({m.family for m in given})
    if len(given) <= len(families) + 1:
        raise ValueError(f"{len(given)} measurements for {len(families) + 1} figures: measure more")
    rows = [[m.priced * (m.family == f) / m.measured for f in families] + [m.commands / m.measured] for m in given]
    found, *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    errors = np.array(rows) @ found - 1
    return Fit(dict(zip(families, found.tolist())), float(found[-1]), tuple(errors.tolist()))


def without_each(given: Sequence[Measurement]) -> dict[str, Fit]:
    """Returns {name: the fit without it}, without names whose absence leaves too few measurements."""
    parts = {name: [m for m in given if m.name != name] for name in sorted({m.name for m in given})}
    return {name: fit(part) for name, part in parts.items() if len(part) > len({m.family for m in part}) + 1}


def per_command(given: Sequence[Measurement]) -> float:
    """Returns the fitted cycles per command, 0 if its sign depends on one model."""
    found = fit(given).price
    return found if min([found, *(f.price for f in without_each(given).values())]) > 0 else 0.0
