"""Whether a race is worth going on with, judged by what came of it so far.

It ends by the seconds in which its solvers could compute (`race.WorkClock`), so that a busy machine makes it longer and
not worse. What is found by then depends on the machine; what is proved before does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

QUIET, QUIET_OF_LIMIT = 0.5, 0.2
"""A race ends after this part of the time used so far without news, if that is at least so much of the time limit."""

VISIBLE, CLOSE_OF_LIMIT = 0.003, 0.1
"""Part of the cost by which a choice must be better, or a bound higher, to be news: prices are farther from what a
compiled graph takes. Where no more than that is left to gain, a race ends after the second part of its time limit
without a better choice."""


@dataclass
class History:
    """Of one race. All times are seconds since the extraction began, all costs those of the graph that is raced on.

    limit  : the time limit
    offset : to add to a cost to get that of the whole graph
    """

    limit: float
    offset: float = 0.0
    _cost: float = field(default=math.inf, init=False)
    _bound: float = field(default=-math.inf, init=False)
    _begun: int = field(default=0, init=False)
    _better: float = field(default=0.0, init=False)
    _news: float = field(default=0.0, init=False)

    def ends(self, cost: float, bound: float, now: float, begun: int = 0) -> bool:
        """Takes in the best cost and bound at `now`, and how many solvers have begun, which is news, too; whether no
        more is to be expected. Never before there is a choice."""
        if cost == math.inf:
            return False
        visible = VISIBLE * abs(cost + self.offset)
        if self._cost - cost >= visible:
            self._cost, self._better, self._news = cost, now, now
        if bound - self._bound >= visible:
            self._bound, self._news = bound, now
        if begun > self._begun:
            self._begun, self._news = begun, now
        if cost - bound <= visible:
            return now - self._better >= CLOSE_OF_LIMIT * self.limit
        return now - self._news >= max(QUIET_OF_LIMIT * self.limit, QUIET * now)
