"""The graphs that a search starts from, read and compiled in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from cost_models.calibration import spread
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Container, Decision
from eqsat.options.options import Options
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.state import State
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, loads
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

    def decision(self, options: Options, container: Container, target: Target) -> Decision:
        """Returns the decision that the given graphs' figures lead to."""
        footprints = {n: c.estimate.footprint for n, c in self.compiled.items()}
        figures = {n: c.figures for n, c in self.compiled.items()}
        dedicated = max((c.estimate.dedicated for c in self.compiled.values()), default=0)
        return Decision.of(options, footprints, figures, container, dedicated, spread(target))


class Coming:
    """The given graphs, which are read and compiled while the caller does something else.

    Stock's graph is compared with the explicit one meanwhile, and its binary is run.
    reference: the explicit graph as it was read.
    """

    def __init__(
        self, reference: TensorGraph, explicit: bytes, stock: Stock | None, oracle: Oracle, checks: Checks, pool: Pool
    ) -> None:
        self._buffers, self._oracle, self._checks = {"explicit": explicit}, oracle, checks
        self._begun = {"explicit": pool.start(self._compiled, "explicit", reference)}
        if stock is not None:
            self._begun["stock"] = pool.start(self._compiled_stock, stock)
        self._given: Given | None = None

    def given(self, loop: Loop) -> Given:
        """Waits until both graphs are compiled, and stock's is compared on a few samples; failures become warnings."""
        if self._given is None:
            with loop.clock.stage("given graphs"):
                self._given = self._waited(loop.warnings)
        return self._given

    def join(self, loop: Loop, state: State, container: Container) -> State:
        """Returns a state with the given graphs, and with the decision that their figures lead to."""
        given = self.given(loop)
        state = state.with_graphs(given.compiled.values())
        return replace(state, decision=given.decision(state.options, container, state.target))

    def _waited(self, warnings: list[str]) -> Given:
        compiled, refusals = dict[str, Compiled](), dict[str, WorkerError]()
        for which, future in self._begun.items():
            try:
                compiled[which] = future.result()
            except StockError as e:
                warnings.append(f"stock ExecuTorch failed on this graph: {e}")
            except TosaError as e:
                warnings.append(f"stock's graph cannot be read: {e}")
            except WorkerError as e:
                refusals[which] = e
                warnings.append(f"{_REFUSED[which]}: {e}")
            else:
                cycles = compiled[which].figures.cycles
                logger.info("%s cycles, %s", f"{cycles:,}", which, extra={"cycles": cycles})
        is_wrong = "stock" in compiled and self._checks.reject(compiled["stock"])
        return Given(self._buffers, compiled, refusals, compiled.pop("stock") if is_wrong else None)

    def _compiled_stock(self, stock: Stock) -> Compiled:
        buffer = stock if isinstance(stock, bytes) else stock()
        graph, self._buffers["stock"] = loads(buffer, "stock's TOSA"), buffer
        found = self._compiled("stock", graph)
        self._checks.begin(found)
        return found

    def _compiled(self, which: str, graph: TensorGraph) -> Compiled:
        found = self._oracle.compiled(Candidate(which, graph, self._buffers[which]))
        if self._checks.guards(found):
            self._checks.binaries.begin(found)  # what becomes of the graph depends on it
        return found
