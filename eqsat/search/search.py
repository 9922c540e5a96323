"""What one optimization knows, from its first stage to its last."""

from __future__ import annotations

from dataclasses import dataclass, field

from eqsat.search.clock import Clock
from eqsat.search.decision import Decision
from eqsat.search.options import Options
from eqsat.search.result import Extracted
from eqsat.target import Target
from eqsat.workers.worker import Pool


@dataclass(slots=True)
class Search:
    """Of one optimization. decision: what the answer is chosen by; warnings: what went wrong, for the user; extractions: each choice that was
    compiled."""

    target: Target
    pool: Pool
    options: Options
    decision: Decision = Decision()
    clock: Clock = field(default_factory=Clock)
    warnings: list[str] = field(default_factory=list)
    extractions: list[Extracted] = field(default_factory=list)
