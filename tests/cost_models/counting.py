"""A pool of workers that notes what it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from eqsat.ground.worker import Pool


class CountingPool(Pool):
    """asked: how many calls each `map` was of. The workers are those of another pool."""

    def __init__(self, pool: Pool):
        self.pool, self.call, self.asked = pool, pool.call, list[int]()

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        answers = self.pool.map(fn, items)
        self.asked.append(len(answers))
        return answers
