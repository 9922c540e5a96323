"""The graphs that a search starts from, read and compiled in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from eqsat.choice.compiled import Compiled
from eqsat.ground.process import WorkerError
from eqsat.options.decision import Container, Decision
from eqsat.search.search import Search
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, loads
from eqsat.vela.compile import compile_tosa
from eqsat.verification.checks import Checks

logger = logging.getLogger(__name__)

#: Beginning of the warning about a given graph that Vela refuses, by name.
_REFUSED = {"explicit": "Vela refuses the explicit graph", "stock": "Vela refuses stock's graph"}


class StockError(Exception):
    """Stock ExecuTorch failed on a graph; the message says why."""


#: Stock's flatbuffer, or a function that returns it.
#: The function may block, and may raise StockError.
Stock = bytes | Callable[[], bytes]


@dataclass(frozen=True, slots=True)
class _Read:
    buffer: bytes
    compiled: Compiled | WorkerError


#: The graphs that are being read and compiled, by name ("explicit" and "stock").
Coming = Mapping[str, Future[_Read]]


@dataclass(frozen=True, slots=True)
class Given:
    """The given graphs, by name ("explicit" and "stock").

    buffers: the flatbuffers as they were given.
    compiled: the graphs that Vela accepts.
    refusals: Vela's errors for the others.
    wrong: stock's graph where it computes something else; then it is none of the graphs that compete.
    """

    buffers: Mapping[str, bytes]
    compiled: Mapping[str, Compiled]
    refusals: Mapping[str, WorkerError]
    wrong: Compiled | None = None

    @property
    def stock(self) -> Compiled | None:
        """Stock's graph, whatever it computes."""
        return self.compiled.get("stock") or self.wrong

    @staticmethod
    def of(coming: Coming, explicit: bytes, search: Search, checks: Checks) -> Given:
        """Waits until Vela has compiled both graphs, and stock's is compared on a few samples.

        Failures become warnings of the search.
        """
        buffers, compiled, refusals = {"explicit": explicit}, dict[str, Compiled](), dict[str, WorkerError]()
        with search.clock.stage("given graphs"):
            for which, future in coming.items():
                try:
                    read = future.result()
                except StockError as e:
                    search.warnings.append(f"stock ExecuTorch failed on this graph: {e}")
                    continue
                except TosaError as e:
                    search.warnings.append(f"stock's graph cannot be read: {e}")
                    continue
                buffers[which] = read.buffer
                if isinstance(read.compiled, WorkerError):
                    refusals[which] = read.compiled
                    search.warnings.append(f"{_REFUSED[which]}: {read.compiled}")
                    continue
                compiled[which] = read.compiled
                cycles = read.compiled.estimate.corrected
                logger.info("%s corrected cycles, %s", f"{cycles:,}", which, extra={"cycles": cycles})
            is_wrong = "stock" in compiled and checks.differs(compiled["stock"])
        return Given(buffers, compiled, refusals, compiled.pop("stock") if is_wrong else None)

    def decision(self, search: Search, container: Container) -> Decision:
        """Returns the decision that the given graphs' figures lead to."""
        footprints = {n: c.estimate.footprint for n, c in self.compiled.items()}
        figures = {n: c.figures for n, c in self.compiled.items()}
        dedicated = max((c.estimate.dedicated for c in self.compiled.values()), default=0)
        return Decision.of(search.options, footprints, figures, container, dedicated)


def begun(search: Search, reference: TensorGraph, explicit: bytes, stock: Stock | None, checks: Checks) -> Coming:
    """Starts to compile both graphs, to prove that stock's graph is equal, and to run its binary.

    reference: the explicit graph as it was read.
    """

    def compiled(which: str, buffer: bytes, graph: TensorGraph) -> _Read:
        try:
            estimate = compile_tosa(buffer, search.target, search.pool)
        except WorkerError as e:
            return _Read(buffer, e)
        found = Compiled(which, graph, buffer, estimate)
        if checks.breaks_a_guard(found):
            checks.binaries.begin(found)  # what becomes of the graph depends on it
        return _Read(buffer, found)

    def read(stock: Stock) -> _Read:
        buffer = stock if isinstance(stock, bytes) else stock()
        found = compiled("stock", buffer, loads(buffer, "stock's TOSA"))
        if isinstance(found.compiled, Compiled):
            checks.begin(found.compiled)
        return found

    coming = {"explicit": search.pool.start(compiled, "explicit", explicit, reference)}
    return coming if stock is None else {**coming, "stock": search.pool.start(read, stock)}
