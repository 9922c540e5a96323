"""Choices of one e-graph, each compiled whole by Vela, whose tables correct the prices."""

from __future__ import annotations

import logging
import math

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.choice.correction import corrected
from eqsat.choice.writer import Written
from eqsat.options.options import OptionError
from eqsat.search.result import Extracted
from eqsat.search.search import Search
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.verification.regions import computed_classes
from eqsat.workers.worker import WorkerError
from extraction import Extraction

logger = logging.getLogger(__name__)


class CompiledChoices:
    """choices: with the prices as they are known by now; by_tosa: each graph that was compiled, None where Vela refuses it."""

    def __init__(self, search: Search, choices: Choices) -> None:
        self.search, self.choices = search, choices
        self.by_tosa: dict[bytes, Compiled | None] = {}

    @property
    def graphs(self) -> list[Compiled]:
        """Those that Vela takes, in the order in which they were found."""
        return [c for c in self.by_tosa.values() if c]

    def add(self, found: Extraction, extractor: str, number: int) -> tuple[Compiled | None, bool]:
        """A choice compiled whole, None if Vela refuses it; and whether prices were corrected for it so that the next extraction may differ."""
        written = self.choices.tensor_graph(found.choice)
        buffer = dumps(written[0])
        is_new = buffer not in self.by_tosa
        if is_new:
            self.by_tosa[buffer] = self._compile(written, buffer, found)
        compiled = self.by_tosa[buffer]
        if compiled is None:
            return compiled, False
        gap = found.gap if math.isfinite(found.gap) else None
        cycles = compiled.estimate.corrected
        logger.info("%s cycles by %s, round %d", f"{cycles:,}", extractor, number, extra={"cycles": cycles})
        self.search.extractions.append(Extracted(extractor, number, float(found.cost), cycles, gap))
        if not is_new:
            return compiled, False
        self.choices, may_differ = corrected(self.choices, written, compiled.estimate.rows)
        return compiled, may_differ

    def _compile(self, written: Written, buffer: bytes, found: Extraction) -> Compiled | None:
        """None: Vela refuses it."""
        try:
            with self.search.clock.stage("vela"):
                estimate = compile_tosa(buffer, self.search.target, self.search.pool)
            judged = self.search.referee.decisive(estimate)
        except (WorkerError, OptionError) as e:
            self.search.warnings.append(f"a candidate was dropped: {e}")
            return None
        return Compiled(
            "eqsat",
            written[0],
            buffer,
            estimate,
            judged=judged,
            choices=self.choices,
            choice=found.choice,
            classes=computed_classes(self.choices, *written),
        )
