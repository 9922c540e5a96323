"""`dag_greedy`: chooses bottom-up by the cost of everything that an e-node needs, and counts shared parts once.

It resembles extraction-gym's faster-greedy-dag, but visits e-nodes in order of price.
It runs several times with different tie orders.
Each result is then improved from the roots' point of view (`local_search`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from extraction.check import Choice, check, reachable
from extraction.derivation import flags_of
from extraction.graph import ChoiceGraph, Prices
from extraction.local_search import LocalSearch
from extraction.protocol import Extraction
from extraction.stopping import clock, is_over
from extraction.tree_greedy import Rank, bottom_up, require_roots, tree_pass

#: Greedy passes with different orders of ties.
RESTARTS = 4
#: E-nodes above which only the first pass is made: a pass takes seconds there.
RESTART_NODES = 20_000
#: Classes up to which each has a bit set of all that it needs; together these take 600 MB.
#: Above this the first choice is that of `tree_greedy`.
SET_CLASSES = 100_000


def extract(
    graph: ChoiceGraph,
    *,
    time_limit: float = 10.0,
    seed: int = 0,
    warm_start: Choice | None = None,
    restarts: int = RESTARTS,
    starts: Sequence[Choice] = (),
) -> Extraction:
    """Returns the best of `warm_start`, `restarts` greedy passes and the choices `starts`.

    At least one pass is made; the passes and `starts` are improved locally.
    The result is deterministic for a seed unless `time_limit` (seconds of computing) ends the search early.
    Raises Infeasible.
    """
    start = time.perf_counter()
    deadline = clock() + time_limit
    prices = Prices(graph)
    rng = random.Random(seed)
    trace: list[tuple[float, float]] = []
    best: dict[int, int] = {}
    best_cost = float("inf")

    def offer(choice: Choice) -> None:
        nonlocal best, best_cost
        cost = check(graph, choice)
        if cost < best_cost:
            best, best_cost = reachable(graph, choice), cost
            trace.append((time.perf_counter() - start, cost))

    def improve(choice: dict[int, int]) -> None:
        offer(choice)
        search = LocalSearch(prices, choice)
        search.descend(deadline, rng)
        offer(search.choice)

    ranks: list[Rank] = [float, lambda n: -n, lambda n: len(prices.reads[n])]
    ranks += [lambda n: rng.random()] * (restarts - len(ranks))
    for i, rank in enumerate(ranks[:restarts]):
        if i and (graph.n_nodes > RESTART_NODES or is_over(deadline)):
            break
        choice = first_pass(prices, rank)
        improve(choice)
        for given in starts if not i else ():
            improve({**choice, **given})  # other classes keep the greedy picks
    if warm_start is not None:
        offer(warm_start)
    return Extraction(best, best_cost, float("-inf"), "feasible", trace, time.perf_counter() - start, "dag_greedy")


def first_pass(prices: Prices, rank: Rank = float) -> dict[int, int]:
    """Makes the best pass for which a graph of this size leaves enough memory. Raises Infeasible."""
    return (greedy_pass if prices.graph.n_classes <= SET_CLASSES else tree_pass)(prices, rank)


def greedy_pass(prices: Prices, rank: Rank = float) -> dict[int, int]:
    """Makes one bottom-up pass and returns a choice for every class that can be extracted. Raises Infeasible."""
    closure: dict[int, int] = {}  # class -> bit set of the classes below it, itself included
    total: dict[int, float] = {}  # class -> cost of that set
    own = np.zeros(prices.graph.n_classes)  # class -> the share of its e-node in that cost

    def price(n: int, choice: dict[int, int]) -> float:
        below = sorted(prices.reads[n], key=lambda d: -total[d])
        value = prices.node[n] + prices.edges(n, choice)
        if below:
            seen = closure[below[0]]
            value += total[below[0]]
            for d in below[1:]:
                fresh = closure[d] & ~seen
                if fresh:
                    value += _weigh(fresh, own)
                    seen |= fresh
        return value

    def decide(c: int, choice: dict[int, int], value: float) -> None:
        n = choice[c]
        bits = 1 << c
        for d in prices.reads[n]:
            bits |= closure[d]
        closure[c], total[c] = bits, value
        own[c] = prices.node[n] + prices.edges(n, choice)

    choice = bottom_up(prices, price, decide, rank)
    require_roots(prices.graph, choice)
    return choice


def _weigh(bits: int, own: NDArray[np.float64]) -> float:
    """Returns the sum of `own` over a bit set."""
    if bits & (bits - 1) == 0:
        return float(own[bits.bit_length() - 1])
    return float(own[flags_of(bits, len(own)).view(bool)].sum())
