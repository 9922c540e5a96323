"""Efforts: how much an optimization may spend. `Options` may set each budget alone."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.egraph.engine import Budget


@dataclass(frozen=True, slots=True)
class Effort:
    """The budgets of one effort.

    summary: one line for users.
    searches: whether rules are used; if not, the graph is only written again.
    budget: limits of the saturation. extractor: name of the extractor.
    time_limit: seconds of each extraction, half of them if another round follows.
    memory: graphs compiled to fit into limits of memory, at most.
    binary_time_limit: seconds of running binaries, for stock's graph and for all others.
    orders, settings, stripes: graphs compiled per start, at most.
    They differ in operator order, in settings of Vela, and in rows that become stripes.
    """

    summary: str
    searches: bool
    budget: Budget
    extractor: str
    time_limit: float
    memory: int
    binary_time_limit: float
    orders: int
    settings: int
    stripes: int


#: The efforts by number.
EFFORTS = (
    Effort("no search: the graph is written afresh", False, Budget(), "dag_greedy", 2.0, 0, 5.0, 0, 0, 0),
    Effort(
        "greedy extraction, seconds",
        True,
        Budget(nodes=15_000, matches=500_000),
        "dag_greedy",
        2.0,
        24,
        5.0,
        4,
        4,
        6,
    ),
    Effort("the default", True, Budget(), "portfolio", 10.0, 56, 30.0, 12, 7, 18),
)
DEFAULT_EFFORT = 2
