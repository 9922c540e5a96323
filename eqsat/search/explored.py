"""The state of one explored e-graph, and rounds that extend it.

Each round compiles choices as whole graphs, and Vela's tables correct the prices.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.choice.correction import corrected
from eqsat.choice.writer import Written
from eqsat.options.decision import Decision
from eqsat.search.interruption import SearchInterrupted
from eqsat.search.result import Extracted
from eqsat.search.search import Search
from eqsat.tosa.flatbuffer import dumps
from extraction import Extraction

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class Explored:
    """The state of one explored e-graph.

    choices: the choices with their prices so far.
    by_tosa: each compiled graph, by its flatbuffer; None if Vela refuses it.
    """

    choices: Choices
    by_tosa: dict[bytes, Compiled | None] = field(default_factory=dict)

    @property
    def graphs(self) -> list[Compiled]:
        """The graphs that Vela accepts, in the order in which they were found."""
        return [c for c in self.by_tosa.values() if c]


class Rounds(ABC):
    """Rounds that extend the state of one e-graph.

    explored: the state so far.
    """

    def __init__(self, search: Search, explored: Explored) -> None:
        self.search, self.explored = search, explored

    def run(self) -> Explored:
        """Returns the state after the rounds, or after an interruption of the search."""
        known, reason = len(self.graphs), "the search was interrupted"
        with suppress(SearchInterrupted):
            self.search.interruption.check()
            reason = self._run()
        if reason:
            self._tell(self.called, reason, known)
        return self.explored

    @property
    @abstractmethod
    def called(self) -> str:
        """The name of these rounds in logs."""

    @abstractmethod
    def _run(self) -> str:
        """Adds the graphs that it finds, and returns why it ended, "" if its parts logged that.

        Raises SearchInterrupted.
        """

    def _tell(self, called: str, reason: str, known: int) -> None:
        """Logs why rounds ended and what they found besides the `known` graphs, by number."""
        fewest = min((c.estimate.corrected for c in self.graphs), default=None)
        so_far = "" if fewest is None else f", fewest corrected cycles so far: {fewest:,}"
        logger.info("%s ended: %s; new graphs: %d%s", called, reason, len(self.graphs) - known, so_far)

    @property
    def choices(self) -> Choices:
        return self.explored.choices

    @property
    def graphs(self) -> list[Compiled]:
        return self.explored.graphs

    def _begin(self, choice: Mapping[int, int]) -> None:
        """Starts to compile a choice that is likely to be added next."""
        buffer = dumps(self.choices.tensor_graph(choice)[0])
        if buffer not in self.explored.by_tosa:
            self.search.begin(buffer)

    def _add(self, found: Extraction, extractor: str, number: int) -> tuple[Compiled | None, bool]:
        """Compiles a choice as a whole graph, and corrects the prices by Vela's table.

        number: the round.
        Returns the graph, None if Vela refuses it.
        Also returns whether the next extraction may differ because prices changed.
        """
        written = self.choices.tensor_graph(found.choice)
        buffer = dumps(written[0])
        is_new = buffer not in self.explored.by_tosa
        if is_new:
            self.explored.by_tosa[buffer] = self._compiled(written, buffer, found)
        compiled = self.explored.by_tosa[buffer]
        if compiled is None:
            return compiled, False
        gap = found.gap if math.isfinite(found.gap) else None
        cycles = compiled.estimate.corrected
        what = ("a new graph" if is_new else "a graph that is known") + ("" if gap is None else f", gap {gap:.1%}")
        told = f"{cycles:,}", extractor, number, what
        logger.info("%s corrected cycles by %s, round %d: %s", *told, extra={"cycles": cycles})
        self.search.extractions.append(Extracted(extractor, number, float(found.cost), cycles, gap))
        if not is_new:
            return compiled, False
        choices, may_differ = corrected(self.choices, written, compiled.estimate.rows)
        self.explored = replace(self.explored, choices=choices)
        return compiled, may_differ

    def _compiled(self, written: Written, buffer: bytes, found: Extraction) -> Compiled | None:
        """Returns the compiled graph of a choice, None if Vela refuses it."""
        estimate = self.search.compiled(buffer)
        if estimate is None:
            return None
        return Compiled(
            "eqsat",
            written[0],
            buffer,
            estimate,
            choices=self.choices,
            choice=found.choice,
        )


class RoundsWithin(Rounds):
    """Rounds that look for graphs within the limits of a decision."""

    def __init__(self, search: Search, explored: Explored, decision: Decision) -> None:
        super().__init__(search, explored)
        self.decision, self.limits = decision, decision.limits
