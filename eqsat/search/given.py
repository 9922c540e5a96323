"""The graphs that a search starts from, read and compiled in the background."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from cost_models.calibration import get_spread
from eqsat.choice.compiled import Candidate, Compiled
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Container, Decision
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import State
from eqsat.tensor.dtypes import DTYPES
from eqsat.tosa.flatbuffer import TosaError, loads, tensor_names
from eqsat.verification.checks import Checks

logger = logging.getLogger(__name__)

#: Beginning of the warning about a given graph that Vela refuses, by name.
_REFUSED = {"explicit": "Vela refuses the explicit graph", "stock": "Vela refuses stock's graph"}


class StockError(Exception):
    """Stock ExecuTorch failed on a graph; the message says why."""


#: Stock's flatbuffer, or a function that returns it.
#: The function may block, and may raise StockError.
Stock = bytes | Callable[[], bytes]


class Given:
    """The given graphs by name, "explicit" and "stock", read and compiled while the caller does something else.

    Stock's graph is compared with the explicit one meanwhile, and its binary is run.
    buffers: the flatbuffers as they were given.
    compiled: the graphs that Vela accepts.
    refused: Vela's error for the explicit graph.
    stock: stock's graph, also where it computes something else; then it is none of the graphs that compete.
    `join` fills them.
    """

    def __init__(
        self,
        explicit: bytes,
        stock: Stock | None,
        container: Container,
        oracle: Oracle,
        checks: Checks,
        pool: Pool,
    ) -> None:
        self.buffers = {"explicit": explicit}
        self.compiled: dict[str, Compiled] = {}
        self.refused: WorkerError | None = None
        self.stock: Compiled | None = None
        self._container, self._oracle, self._checks = container, oracle, checks
        self._pending = {"explicit": pool.start(self._compile, "explicit", explicit)}
        if stock is not None:
            self._pending["stock"] = pool.start(self._compile, "stock", stock)

    def join(self, loop: Loop, state: State) -> State:
        """Returns a state with the given graphs, and with the decision that their figures lead to.

        Waits until both are compiled, and stock's is compared on a few samples; failures become warnings.
        """
        if self._pending:
            with loop.clock.stage("given graphs"):
                self._wait(loop.warnings)
        before = self.compiled.get("stock") or self.compiled.get("explicit")
        figures, dedicated = (before.figures, before.estimate.dedicated) if before else (None, 0)
        decision = Decision.of(state.options, figures, self._container, dedicated, get_spread(state.target))
        return replace(state.with_graphs(self.compiled.values()), decision=decision)

    def refusal(self, name: str) -> Exception:
        """Returns the error for the explicit graph, called `name`, that Vela refuses: a TosaError if it has floats."""
        assert self.refused is not None, "an explicit graph that Vela accepts equals itself"
        floats = sorted({n.dtype for n in self._checks.verifier.graph.nodes if DTYPES[n.dtype].kind == "float"})
        if not floats:
            return self.refused
        what = f"{name} has tensors of {', '.join(floats)}, and an Ethos-U computes integers only"
        return TosaError(f"{what}: {self.refused}")

    def _wait(self, warnings: list[str]) -> None:
        for which, future in self._pending.items():
            try:
                found = self.compiled[which] = future.result()
            except StockError as e:
                warnings.append(f"stock ExecuTorch failed on this graph: {e}")
            except TosaError as e:
                warnings.append(f"stock's graph cannot be read: {e}")
            except WorkerError as e:
                self.refused = e if which == "explicit" else self.refused
                warnings.append(f"{_REFUSED[which]}: {e}")
            else:
                cycles = found.figures.cycles
                logger.info("%s cycles, %s", f"{cycles:,}", which, extra={"cycles": cycles})
        self._pending = {}
        self.stock = self.compiled.get("stock")
        if self.stock and self._checks.differs_on_samples(self.stock) and self._checks.compare(self.stock) is None:
            del self.compiled["stock"]

    def _compile(self, which: str, given: Stock) -> Compiled:
        """Returns a graph as Vela compiles it; stock's is compared and run meanwhile."""
        buffer = given if isinstance(given, bytes) else given()
        graph = self._checks.verifier.graph if which == "explicit" else loads(buffer, "stock's TOSA")
        self.buffers[which] = buffer
        found = self._oracle.compile(Candidate(which, graph, buffer, tensors=tensor_names(buffer)))
        if which == "stock":
            self._checks.begin(found)
        return found
