"""The oracle: the one place that compiles whole graphs with Vela, and prices the commands that Vela makes of them.

Estimates are kept by the graph's flatbuffer and the settings of Vela.
A compilation may start before its result is needed, even if it is never needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from functools import lru_cache

from cost_models.command_stream import StreamPrice, price_rows
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.device.core.errors import DeviceError
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa


class Oracle:
    """What Vela makes of candidates for a target, in the workers of a pool.

    ahead: compilations that run beside each other.
    """

    def __init__(self, target: Target, pool: Pool) -> None:
        self._target, self._pool, self.ahead = target, pool, pool.size
        self._begun: dict[tuple[bytes, tuple[str, ...]], Future[Estimate]] = {}

    def begin(self, candidate: Candidate) -> Future[Estimate]:
        """Starts to compile a candidate unless that was begun before, and returns the pending estimate."""
        key = candidate.tosa, candidate.settings
        if key not in self._begun:
            self._begun[key] = self._start(candidate)
        return self._begun[key]

    def compile(self, candidate: Candidate) -> Compiled:
        """Returns a candidate as Vela compiles it. Raises WorkerError if Vela refuses it, or without a price."""
        return self._price(candidate, self.begin(candidate).result())

    def _start(self, candidate: Candidate) -> Future[Estimate]:
        target = self._target.with_flags(candidate.settings)
        return self._pool.start(compile_tosa, candidate.tosa, target, self._pool)

    def _price(self, candidate: Candidate, estimate: Estimate) -> Compiled:
        return price_compiled(self._target, candidate, estimate)


def price_compiled(target: Target, candidate: Candidate, estimate: Estimate) -> Compiled:
    """Returns a compiled candidate with its calibrated cycles, also by row. Raises WorkerError without a price."""
    try:
        price, rows = _price_rows(estimate.stream, target, tuple((end, row) for end, row in estimate.raw["rows"]))
    except DeviceError as e:
        raise WorkerError(f"its commands have no price: {e}", refused=True) from e
    told = tuple(replace(row, calibrated=round(rows.get(k, 0))) for k, row in enumerate(estimate.rows))
    return Compiled.of(candidate, replace(estimate, rows=told), price.cycles)


@lru_cache(maxsize=8)
def _price_rows(
    stream: bytes, target: Target, rows: tuple[tuple[int, int], ...]
) -> tuple[StreamPrice, Mapping[int, float]]:
    """Returns what `price_rows` does, once for graphs of the same commands, such as one whose settings change nothing.

    For a TRANSPOSE of 480,000 commands that takes 16 seconds.
    """
    return price_rows(stream, target, dict(rows))
