"""Efforts: how much an optimization may spend; `Options` may set all but the compilations alone."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.egraph.engine import Budget


@dataclass(frozen=True, slots=True)
class Effort:
    """The budgets of one effort.

    summary: one line for users.
    compilations: graphs compiled to fit into limits of memory, at most; 0: the graph is only written again.
    A proposal that sets out from single graphs may have a share of as many for each of them (`Step`).
    budget: limits of the saturation. extractor: name of the extractor.
    time_limit: seconds of each extraction.
    binary_time_limit: seconds of running binaries, for stock's graph and for all others.
    """

    summary: str
    compilations: int
    budget: Budget = Budget()
    extractor: str = "dag_greedy"
    time_limit: float = 2.0
    binary_time_limit: float = 5.0


#: The efforts by number.
EFFORTS = (
    Effort("no search: the graph is only written again", 0),
    Effort("greedy extraction, which takes seconds", 24, Budget(nodes=15_000, matches=500_000)),
    Effort("the default", 60, extractor="portfolio", time_limit=5.0, binary_time_limit=30.0),
)
DEFAULT_EFFORT = 2
