"""Seconds by stage."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

logger = logging.getLogger(__name__)

#: Words of the glossary for stages whose names are not among them.
_WORDS = {
    "given graphs": "stock and explicit graphs",
    "explicit passes": "passes for the explicit graph",
    "explicit tail": "passes for the explicit graph",
    "vela": "Vela",
}


def name_stage(stage: str) -> str:
    """Returns a stage in the words of the glossary.

    >>> name_stage("eqsat: given graphs")
    'eqsat: stock and explicit graphs'
    """
    whose, colon, name = stage.rpartition(": ")
    return f"{whose}{colon}{_WORDS.get(name, name)}"


class Clock:
    """
    >>> clock = Clock()
    >>> with clock.stage("verify"):
    ...     pass
    >>> list(clock.seconds)
    ['verify']
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Adds the seconds spent within to those of the stage, and logs that it begins."""
        logger.info("%s", name_stage(name), extra={"stage": name})
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
