"""An oracle without Vela: the figures of a graph by a function, in this process."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from eqsat.choice.compiled import Candidate, Compiled
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.search.oracle import Oracle, price_compiled
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import Estimate, compile_tosa
from eqsat.vela.regor import RawOutput
from eqsat.vela.roofline import Rates

RATES = Rates(128, 1.0, 8.0, 1e9)


def estimate(cycles: int, sram: int = 0, flash: int = 32, **more: Any) -> Estimate:
    """What Vela says of a graph. flash: bytes of its commands and weights."""
    memory = {"Sram": {"peak": sram, "read": 0, "written": 0}}
    raw = raw_output(bytes(flash - 16), bytes(16))
    return Estimate(cycles, more.pop("rows", ()), memory, RATES, raw, **more)


def raw_output(stream: bytes, read_only: bytes = b"") -> RawOutput:
    """The raw output of a binary without inputs and outputs."""
    empty: Any = {"scratch": 0, "scratch_fast": 0, "inputs": [], "outputs": [], "operators": [], "rows": []}
    return RawOutput(stream=stream, read_only=read_only, **empty)


def compiled(name: str, graph: TensorGraph, found: Estimate, **more: Any) -> Compiled:
    """A graph with Vela's estimate of it."""
    return by_total(Candidate(name, graph, dumps(graph), **more), found)


def by_total(candidate: Candidate, found: Estimate) -> Compiled:
    """A candidate with Vela's estimate of it, whose total decides."""
    return Compiled.of(candidate, found, found.cycles)


def by_vela(graph: TensorGraph, target: Target, pool: Pool, name: str = "eqsat") -> Compiled:
    """A graph as Vela compiles it, named as ours are."""
    buffer = dumps(graph)
    return price_compiled(target, Candidate(name, graph, buffer), compile_tosa(buffer, target, pool))


class FakeOracle(Oracle):
    """
    figures: returns the estimate of a candidate; None: it is refused.
    begun: the candidates that were begun, in order.
    """

    def __init__(self, figures: Callable[[Candidate], Estimate | None], ahead: int = 1) -> None:
        self._figures, self.ahead, self._begun = figures, ahead, {}
        self.begun: list[Candidate] = []

    def _price(self, candidate: Candidate, estimate: Estimate) -> Compiled:
        return by_total(candidate, estimate)

    def _start(self, candidate: Candidate) -> Future[Estimate]:
        self.begun.append(candidate)
        future: Future[Estimate] = Future()
        found = self._figures(candidate)
        if found is None:
            future.set_exception(WorkerError("no", refused=True))
        else:
            future.set_result(found)
        return future
