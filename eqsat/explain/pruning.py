"""Advice on pruning for a run: the convolutions that would take fewer cycles with 2:4 weights."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from eqsat.explain.text import cycles, origins_text
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.search.origins import of_buffer
from eqsat.search.run import Run
from eqsat.tosa.locations import Origins
from eqsat.vela.pruning import Savings, pruning_savings

logger = logging.getLogger(__name__)

#: Most convolutions that the text lists.
_LISTED = 8


@dataclass(frozen=True, slots=True)
class Advice:
    """Vela's estimate of the chosen graph with pruned weights.

    origins: the origins of its convolutions, by node.
    """

    savings: Savings
    origins: Mapping[int, Origins]

    def text(self) -> str:
        """Returns the totals, and a line per convolution, the largest savings first."""
        s = self.savings
        head = (
            f"Pruned to 2:4 before training (no weights at two of every four consecutive input channels), the chosen graph would take "
            f"{cycles(s.cycles)} -> {cycles(s.pruned)} cycles:"
        )
        shown = [
            f"  {c}  {cycles(c.cycles)} -> {cycles(c.pruned)}{origins_text(self.origins.get(c.node, ()))}"
            for c in s.convolutions[:_LISTED]
        ]
        more = len(s.convolutions) - len(shown)
        return "\n".join([head, *shown, *([f"  and {more} more"] if more else [])])

    def as_dict(self) -> dict[str, Any]:
        """Returns all convolutions that gain as a JSON object."""
        return {
            **asdict(self.savings),
            "convolutions": [
                {**asdict(c), "origins": [o.record() for o in self.origins.get(c.node, ())]}
                for c in self.savings.convolutions
            ],
        }


def advice(run: Run) -> Advice | None:
    """Returns the advice for a run, from Vela's estimates of dense and of pruned weights.

    Returns None if the target does not skip zeros, or if no convolution gains.
    Returns None, too, if Vela refuses the pruned graph.
    """
    buffer = run.graphs.get("chosen")
    if buffer is None or not run.target.family.sparse_weights:
        return None
    target = run.target.with_flags(run.result.get("settings", ()))
    try:
        with Worker() as worker:
            savings = pruning_savings(buffer, target, worker)
    except WorkerError as e:
        logger.warning("no advice on pruning: %s", e)
        return None
    if savings is None or not savings.convolutions:
        return None
    return Advice(savings, of_buffer(buffer))
