"""The graphs that a search starts from, read and compiled while it is under way."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from eqsat.choice.compiled import Compiled
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, loads
from eqsat.vela.compile import compile_tosa
from eqsat.verification.verification import Checks
from eqsat.workers.worker import WorkerError

logger = logging.getLogger(__name__)

#: What warnings say of a given graph that Vela does not take.
_REFUSED = {"explicit": "Vela refuses the explicit graph", "stock": "Vela refuses stock's graph"}


class StockError(Exception):
    """Stock ExecuTorch failed on a graph; the message says why."""


#: A flatbuffer, or what gives one once it is needed; that may take its time, and raise StockError.
Stock = bytes | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _Read:
    buffer: bytes
    compiled: Compiled | WorkerError


class Given:
    """reference: the explicit graph as it was read, which says what is to be computed; checks: what compares with it. By name ("explicit" and "stock"): buffers, graphs as
    they were given; compiled, those that Vela takes; refusals, why it does not take the others."""

    def __init__(self, explicit: bytes, stock: Stock | None, search: Search, name: str) -> None:
        """Raises TosaError if `explicit` cannot be read."""
        self.search = search
        self.reference = loads(explicit, name)
        self.checks = Checks(self.reference, search.target, search.pool, search.options, search.warnings)
        self.buffers = {"explicit": explicit}
        self.compiled: dict[str, Compiled] = {}
        self.refusals: dict[str, WorkerError] = {}
        self._coming: dict[str, Future[_Read]] = {
            "explicit": search.pool.start(self._compile, "explicit", explicit, self.reference)
        }
        if stock is not None:
            self._coming["stock"] = search.pool.start(self._stock, stock)

    def wait(self) -> None:
        """Until both graphs are there and Vela has compiled them; what failed is told in the search's warnings."""
        for which in list(self._coming):
            try:
                self._add(which, self._coming.pop(which).result())
            except StockError as e:
                self.search.warnings.append(f"stock ExecuTorch failed on this graph: {e}")
            except TosaError as e:
                self.search.warnings.append(f"stock's graph cannot be read: {e}")

    def _add(self, which: str, read: _Read) -> None:
        self.buffers[which] = read.buffer
        if isinstance(read.compiled, WorkerError):
            self.refusals[which] = read.compiled
            self.search.warnings.append(f"{_REFUSED[which]}: {read.compiled}")
            return
        self.compiled[which] = read.compiled
        cycles = read.compiled.estimate.corrected
        logger.info("%s cycles, %s", f"{cycles:,}", which, extra={"cycles": cycles})

    def _stock(self, stock: Stock) -> _Read:
        buffer = stock if isinstance(stock, bytes) else stock()
        read = self._compile("stock", buffer, loads(buffer, "stock's TOSA"))
        if isinstance(read.compiled, Compiled):
            self.checks.binaries.begin(read.compiled)  # which every result tells of
        return read

    def _compile(self, which: str, buffer: bytes, graph: TensorGraph) -> _Read:
        try:
            estimate = compile_tosa(buffer, self.search.target, self.search.pool)
        except WorkerError as e:
            return _Read(buffer, e)
        judged = self.search.referee.decisive(estimate)
        return _Read(buffer, Compiled(which, graph, buffer, estimate, judged=judged))
