"""How much an optimization may spend: one table of budgets. Each of them may also be set alone (`Options`)."""

from __future__ import annotations

from dataclasses import dataclass

from eqsat.egraph.engine import Budget


@dataclass(frozen=True, slots=True)
class Effort:
    """summary: for users. searches: with rules; if not, the graph is only written afresh. budget: of the saturation.
    extractor; time_limit: seconds of each extraction, half of them where another round follows; rounds: of each
    extractor, with prices corrected by Vela's table of its last choice.
    memory_rounds: extractions with prices on memory, at most, and graphs that are changed step by step until they fit;
    less_memory: whether a second e-graph has forms that need less, where nothing fast fits. binary_time_limit: seconds
    for running what Vela compiles, of stock's graph and of all others. orders, settings, stripes: graphs that are
    compiled in other orders and settings and with rows in stripes, at most, from each start."""

    summary: str
    searches: bool
    budget: Budget
    extractor: str
    time_limit: float
    rounds: int
    memory_rounds: int
    less_memory: bool
    binary_time_limit: float
    orders: int
    settings: int
    stripes: int


#: By number.
EFFORTS = (
    Effort("no search: the graph is written afresh", False, Budget(), "dag_greedy", 2.0, 1, 0, False, 5.0, 0, 0, 0),
    Effort(
        "greedy extraction, seconds",
        True,
        Budget(nodes=15_000, matches=500_000),
        "dag_greedy",
        2.0,
        3,
        6,
        True,
        5.0,
        4,
        3,
        6,
    ),
    Effort("the default", True, Budget(), "portfolio", 10.0, 3, 14, True, 30.0, 12, 6, 18),
    Effort(
        "hours, if need be",
        True,
        Budget(nodes=160_000, seconds=7200.0, passes=100, matches=20_000_000),
        "portfolio",
        1800.0,
        10,
        40,
        True,
        3600.0,
        100,
        20,
        80,
    ),
)
DEFAULT_EFFORT = 2
