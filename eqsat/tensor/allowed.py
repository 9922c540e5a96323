"""The values that an operand may have; for others TOSA leaves the result open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np

from eqsat.tensor.types import Array

#: Magnitude beyond the results of all operators.
FAR = 1 << 62


@dataclass(frozen=True, slots=True)
class Allowed:
    """A set of allowed values.

    low, high: limits, both included (None: those of the dtype).
    never: values within them that are not allowed, sorted.
    distinct: no value may occur twice along the last axis.
    channels: the sets of the indices of the last axis, if they differ; this set is then what all of them allow.

    >>> Allowed(0, 9) & Allowed(-3, 7, never=(0,))
    Allowed(low=1, high=7, never=(), distinct=False, channels=())
    """

    low: int | None = None
    high: int | None = None
    never: tuple[int, ...] = ()
    distinct: bool = False
    channels: tuple[Allowed, ...] = ()

    @staticmethod
    def by_channel(channels: Sequence[Allowed]) -> Allowed:
        """Returns one set for all indices of the last axis, given the set of each."""
        common = reduce(Allowed.__and__, channels)
        return common if len(set(channels)) == 1 else replace(common, channels=tuple(channels))

    def __and__(self, other: Allowed) -> Allowed:
        """Returns the values that both allow in all channels, with limits that are allowed unless there are none."""
        low = max((v for v in (self.low, other.low) if v is not None), default=None)
        high = min((v for v in (self.high, other.high) if v is not None), default=None)
        never = {*self.never, *other.never}
        while low in never and (high is None or low < high):
            low += 1
        while high in never and (low is None or high > low):
            high -= 1
        inside = (v for v in never if (low is None or v > low) and (high is None or v < high))
        return Allowed(low, high, tuple(sorted(inside)), self.distinct or other.distinct)

    def limits(self, low: int = -FAR, high: int = FAR) -> tuple[int, int]:
        """Returns the lowest and highest value, which are `low` and `high` where this set has no limit."""
        return low if self.low is None else self.low, high if self.high is None else self.high

    def why_not(self, values: Array) -> str:
        """Returns why some of the values are not allowed, "" if all are."""
        if not values.size:
            return ""
        if self.channels:
            reasons = (allowed.why_not(values[..., c]) for c, allowed in enumerate(self.channels))
            return next((f"in channel {c} {why_not}" for c, why_not in enumerate(reasons) if why_not), "")
        least, most = int(values.min()), int(values.max())
        low, high = self.limits()
        if least < low or most > high:
            return f"from {least} to {most}, allowed are {_text(self.low)} to {_text(self.high)}"
        if self.never and (found := np.intersect1d(values, self.never)).size:
            return f"{found[0]}, which is not allowed"
        if self.distinct and values.ndim and not np.diff(np.sort(values)).all():
            return "the same one twice"
        return ""

    def nearest_above(self, values: Array) -> Array:
        """Returns the values, with each one in `never` replaced by the next one above that is not."""
        if not self.never:
            return values
        never = np.asarray(self.never)
        # The values that follow a run of values that are not allowed.
        after = np.setdiff1d(never + 1, never)
        above = after[np.minimum(np.searchsorted(after, values), len(after) - 1)]
        return np.where(np.isin(values, never), above, values)


#: Any value.
ANY = Allowed()


def _text(limit: int | None) -> str:
    return "any" if limit is None else str(limit)
