"""Efforts: how much an optimization may spend; `Options` may set all but the compilations alone.

A search goes through the lower efforts first and goes on from what they found.
So more effort never gives a worse result.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Effort:
    """The budgets of one effort.

    summary: one line for users.
    compilations: graphs compiled to fit into limits of memory, at most; 0: the graph is only written again.
    A proposal that sets out from single graphs may have a share of as many for each of them (`Step`).
    extractor: name of the extractor.
    time_limit: seconds of each extraction.
    binary_time_limit: seconds of running binaries, for stock's graph and for all others.
    """

    summary: str
    compilations: int
    extractor: str = "dag_greedy"
    time_limit: float = 2.0
    binary_time_limit: float = 5.0


#: The efforts by number.
EFFORTS = (
    Effort("no search: the graph is only written again", 0),
    Effort("greedy extraction, which takes seconds", 24),
    Effort("the default", 60, extractor="portfolio", time_limit=5.0, binary_time_limit=30.0),
)
DEFAULT_EFFORT = 2
