"""`k_best`: several good choices that differ, for callers that can judge them better than prices do.

Around the best choice every alternative e-node is forced in turn.
Local search adapts the rest.
This is repeated around each choice found, with its own e-node still forced.
Choices within `max_ratio` are picked by distance from each other and by price.
"""

from __future__ import annotations

import random
import time

from . import portfolio
from .check import Choice, check, reachable
from .dag_greedy import greedy_pass
from .errors import ExtractionError, InvalidExtraction
from .graph import ChoiceGraph
from .local_search import LocalSearch
from .prices import Prices
from .result import Extraction
from .stopping import clock, is_over

#: Part of the time limit for the best choice.
BEST_SHARE = 0.6

#: Candidates collected for each choice asked for.
#: They are enough to pick from, and end the search without a clock.
POOL = 25


def k_best(
    graph: ChoiceGraph,
    k: int,
    *,
    time_limit: float = 10.0,
    seed: int = 0,
    max_ratio: float = 1.1,
    warm_start: Choice | None = None,
) -> list[Extraction]:
    """Returns up to `k` distinct choices, best first, none above `max_ratio` times the best cost.

    The first is the portfolio's, with its bound; all are valid (`check`).
    Choices that differ only in classes that the roots do not reach count as one.
    For a best cost <= 0 only equal costs are within the ratio.
    time_limit: seconds.
    Raises Infeasible, NoChoiceFound like the portfolio, ExtractionError for k < 1 or max_ratio < 1.
    """
    if k < 1 or max_ratio < 1:
        raise ExtractionError(f"k_best needs k >= 1 and max_ratio >= 1, not {k} and {max_ratio}")
    start = time.perf_counter()
    best = portfolio.extract(graph, time_limit=BEST_SHARE * time_limit, seed=seed, warm_start=warm_start)
    if k == 1 or best.interrupted:
        return [best]
    left = max(0.0, start + time_limit - time.perf_counter())
    pool = _alternatives(graph, best, POOL * k, clock() + left, random.Random(seed), max_ratio)
    picked = _pick(best, pool, k, max_ratio)
    now = time.perf_counter() - start
    others = [
        Extraction(choice, cost, best.lower_bound, "feasible", [(now, cost)], now, "k_best") for choice, cost in picked
    ]
    return [best, *sorted(others, key=lambda e: e.cost)]


def _alternatives(
    graph: ChoiceGraph, best: Extraction, size: int, deadline: float, rng: random.Random, max_ratio: float
) -> list[tuple[dict[int, int], float]]:
    """Returns choices with one e-node forced, around the best one and then around those found."""
    prices = Prices(graph)
    try:
        everywhere = greedy_pass(prices)
    except ExtractionError:
        everywhere = {}
    limit = max(float(best.cost) * max_ratio, float(best.cost))
    seen = {frozenset(best.choice.values())}
    found: list[tuple[dict[int, int], float]] = []
    centres: list[tuple[dict[int, int], frozenset[int]]] = [(best.choice, frozenset())]
    for centre, locked in centres:
        forced = [(c, n) for c, m in centre.items() if c not in locked for n in graph.class_nodes(c) if n != m]
        rng.shuffle(forced)
        for c, n in forced:
            if len(found) >= size or is_over(deadline):
                return found
            search = LocalSearch(prices, {**everywhere, **centre})
            search.locked = {*locked, c}
            candidate = _force(search, c, n, deadline, rng)
            if candidate is None:
                continue
            choice, cost = candidate
            key = frozenset(choice.values())
            if cost <= limit and key not in seen:
                seen.add(key)
                found.append((choice, cost))
                centres.append((choice, frozenset(search.locked)))
    return found


def _force(
    search: LocalSearch, c: int, n: int, deadline: float, rng: random.Random
) -> tuple[dict[int, int], float] | None:
    """Returns the choice of `search` with n for c and the rest adapted, None if there is none."""
    graph = search.graph
    if n in graph.forbidden or any(d not in search.choice for d in search.prices.reads[n]):
        return None
    if search.switch(c, n) == float("inf") or search.cyclic(c):
        return None
    search.descend(deadline, rng, rounds=2)
    try:
        adapted = reachable(graph, search.active())
        return adapted, check(graph, adapted)
    except InvalidExtraction:
        return None


def _pick(
    best: Extraction, pool: list[tuple[dict[int, int], float]], k: int, max_ratio: float
) -> list[tuple[dict[int, int], float]]:
    """Returns k - 1 of `pool`, each the farthest from those before; expensive choices count as nearer."""
    room = float(best.cost) * (max_ratio - 1) or 1.0
    distance = [len(set(best.choice.values()) ^ set(choice.values())) for choice, _ in pool]
    picked: list[tuple[dict[int, int], float]] = []
    left = set(range(len(pool)))
    while left and len(picked) < k - 1:
        i = max(left, key=lambda i: (distance[i] * (1 - 0.5 * (pool[i][1] - best.cost) / room), -i))
        left.discard(i)
        picked.append(pool[i])
        chosen = set(pool[i][0].values())
        for j in left:
            distance[j] = min(distance[j], len(chosen ^ set(pool[j][0].values())))
    return picked
