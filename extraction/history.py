"""Whether a race is worth continuing, judged by its progress so far.

It ends by the seconds in which its solvers could compute (`race.WorkClock`).
So a busy machine makes a race longer and not worse.
The best choice at the end depends on the machine; proofs before the end do not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

#: A race ends after this part of the time used so far without news.
QUIET = 0.5

#: A race goes on without news for at least this part of its time limit.
QUIET_OF_LIMIT = 0.2

#: Part of the cost by which a choice must be better, or a bound higher, to be news.
#: Prices differ by more than that from the cycles of a compiled graph.
VISIBLE = 0.003

#: Part of the time limit after which a race without a better choice ends if at most VISIBLE is left
#: to gain.
CLOSE_OF_LIMIT = 0.1


@dataclass
class History:
    """The progress of one race.

    Times are seconds since the extraction began; costs are those of the graph that is raced on.

    limit : the time limit
    offset: added to a cost it gives the cost in the whole graph
    """

    limit: float
    offset: float = 0.0
    _cost: float = field(default=math.inf, init=False)
    _bound: float = field(default=-math.inf, init=False)
    _begun: int = field(default=0, init=False)
    _better: float = field(default=0.0, init=False)
    _news: float = field(default=0.0, init=False)

    def ends(self, cost: float, bound: float, now: float, begun: int = 0) -> bool:
        """Records the best cost and bound at `now`; returns whether no more progress is expected.

        begun: how many solvers have begun; a new one counts as news.
        Returns False while there is no choice.
        """
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
