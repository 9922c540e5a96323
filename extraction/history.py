"""Whether a race is worth going on with, judged by what came of it so far.

It ends by the clock, as it does at its time limit: what it had found by then depends on how busy the machine is. What is proved before does not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

QUIET, QUIET_OF_LIMIT = 0.5, 0.2
"""A race ends after this part of the time used so far without news, if that is at least so much of the time limit."""

VISIBLE, CLOSE_OF_LIMIT = 0.001, 0.1
"""Part of the cost that a bound must rise by to be news: prices are farther from what a compiled graph takes. Where no more than that is left to
gain, a race ends after the second part of its time limit without a better choice."""


@dataclass
class History:
    """Of one race. All times are seconds on one clock, all costs those of the graph that is raced on.

    begin, limit : when the extraction began, and its time limit
    starts       : when solvers begin, which is news, too
    offset       : to add to a cost to get that of the whole graph
    """

    begin: float
    limit: float
    starts: Sequence[float] = ()
    offset: float = 0.0
    _cost: float = field(default=math.inf, init=False)
    _bound: float = field(default=-math.inf, init=False)
    _better: float = field(init=False)
    _news: float = field(init=False)

    def __post_init__(self) -> None:
        self._better = self._news = self.begin

    def ends(self, cost: float, bound: float, now: float) -> bool:
        """Takes in the best cost and bound at `now`; whether no more is to be expected. Never before there is a choice."""
        if cost == math.inf:
            return False
        visible = VISIBLE * abs(cost + self.offset)
        if cost < self._cost:
            self._cost, self._better, self._news = cost, now, now
        if bound - self._bound >= visible:
            self._bound, self._news = bound, now
        if cost - bound <= visible:
            return now - self._better >= CLOSE_OF_LIMIT * self.limit
        news = max([self._news, *(t for t in self.starts if t <= now)])
        return now - news >= max(QUIET_OF_LIMIT * self.limit, QUIET * (now - self.begin))
