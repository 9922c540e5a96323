"""The oracle: the one place that asks Vela for whole graphs.

What it said of a graph is remembered by the graph's flatbuffer and the settings of Vela.
A candidate may be begun before it is asked for, or begun and never asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from eqsat.choice.compiled import Candidate, Compiled
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa


class Oracle:
    """
    start: begins a compilation and returns the pending estimate.
    ahead: compilations that run beside each other.
    """

    def __init__(self, start: Callable[[Candidate], Future[Estimate]], ahead: int = 1) -> None:
        self._start, self.ahead = start, ahead
        self._begun: dict[tuple[bytes, tuple[str, ...]], Future[Estimate]] = {}

    @staticmethod
    def of(target: Target, pool: Pool) -> Oracle:
        """Returns the oracle that compiles for a target in the workers of a pool."""

        def start(candidate: Candidate) -> Future[Estimate]:
            return pool.start(compile_tosa, candidate.tosa, target.with_flags(candidate.settings), pool)

        return Oracle(start, pool.size)

    def begin(self, candidate: Candidate) -> Future[Estimate]:
        """Starts to compile a candidate unless that was begun before, and returns the pending estimate."""
        key = candidate.tosa, candidate.settings
        if key not in self._begun:
            self._begun[key] = self._start(candidate)
        return self._begun[key]

    def compiled(self, candidate: Candidate) -> Compiled:
        """Returns a candidate as Vela compiles it. Raises WorkerError if Vela refuses it."""
        return Compiled.of(candidate, self.begin(candidate).result())
