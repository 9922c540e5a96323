"""Checks of compiled binaries on the functional model, within a budget of work.

A binary is right if it computes what its graph does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from eqsat.device.compile import raw_of
from eqsat.device.verification import Verdict, check
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Array
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import run_samples
from eqsat.vela.compile import compile_tosa
from eqsat.vela.regor import RawOutput

#: Elements that a comparison computes in all tensors and samples, about.
_ELEMENTS = 1 << 22
#: Samples per binary, at most.
_MOST = 16
#: Elements that the functional model computes per second, about, in all tensors and samples.
#: It converts a limit in seconds into a budget of work.
#: So a busy machine runs the same binaries as an idle one.
#: Source: benchmarks/results/device.
_ELEMENTS_PER_SECOND = 2_000_000
#: Seconds after which a run counts as hung.
_HUNG = 600.0

Samples = Sequence[Sequence[Array]]
#: A graph's outputs per sample, or why there are none.
Outputs = Sequence[Sequence[Array] | WorkerError]


class Binaries:
    """Checks binaries for a target.

    seconds: budget for all of them together, counted in work; 0: none is run.
    """

    def __init__(self, target: Target, pool: Pool, seconds: float) -> None:
        self._target, self._pool, self._asked = target, pool, seconds
        self._left, self._lock = seconds * _ELEMENTS_PER_SECOND, threading.Lock()

    @property
    def run_at_all(self) -> bool:
        """Whether the user wants binaries to be run."""
        return self._asked > 0

    def verdict(
        self,
        graph: TensorGraph,
        raw: RawOutput,
        inputs: Samples,
        expected: Callable[[], Outputs],
        whatever_it_takes: bool = False,
    ) -> Verdict:
        """Returns whether the binary of a graph computes what is expected on `inputs`.

        raw: the compiled graph.
        expected: returns the graph's outputs per sample.
        whatever_it_takes: runs the binary even if the budget is used up.
        The verdict is None, with the reason, if the binary was not run.
        """
        if not self.run_at_all:
            return Verdict(None, "binaries are not run (binary_time_limit is 0)")
        work = len(inputs) * sum(graph.type(n).elements for n in graph.live())
        with self._lock:
            if self._left <= 0 and not whatever_it_takes:
                return Verdict(None, f"no time was left of {self._asked:g} s (binary_time_limit)")
            self._left -= work

        def wanted() -> Outputs:
            found = expected()
            shown = next((ys for ys in found if not isinstance(ys, WorkerError)), None)
            if shown and any(y.size != graph.type(o).elements for y, o in zip(shown, graph.outputs, strict=True)):
                raise WorkerError("the reference model does not show all outputs")
            return found

        try:
            return check(graph, raw, self._pool, inputs, wanted, _HUNG)
        except WorkerError as e:
            return Verdict(None, str(e))

    def culprit(self, graph: TensorGraph, inputs: Samples) -> int | None:
        """Returns the first node up to which the graph's binary is wrong, or None.

        It is found by bisection, so it may be a later one if errors come and go.
        """
        inner = [n for n in graph.live() if _activation(graph, n)]
        try:
            answers = run_samples(dumps(_up_to(graph, inner)), inputs, self._pool, _HUNG)
        except WorkerError:
            return None
        shown = [(x, a) for x, a in zip(inputs, answers, strict=True) if not isinstance(a, WorkerError)]
        low, high = 0, len(inner)
        while low < high:
            middle = (low + high) // 2
            expected = [[values[middle]] for _, values in shown]
            if self._is_wrong_up_to(graph, inner[middle], [x for x, _ in shown], expected):
                high = middle
            else:
                low = middle + 1
        return inner[low] if low < len(inner) else None

    def _is_wrong_up_to(self, graph: TensorGraph, node: int, inputs: Samples, expected: Samples) -> bool:
        part = _up_to(graph, [node])
        try:
            raw = raw_of(compile_tosa(dumps(part), self._target, self._pool))
        except WorkerError:
            return False
        return self.verdict(part, raw, inputs, lambda: expected, whatever_it_takes=True).equal is False


def _up_to(graph: TensorGraph, nodes: Sequence[int]) -> TensorGraph:
    """Returns the graph with some nodes as its outputs."""
    return TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=list(nodes))


def samples_for(graph: TensorGraph) -> int:
    """Returns the number of samples on which a graph's binary is run; large graphs get fewer."""
    elements = sum(graph.type(n).elements for n in graph.live())
    return max(2, min(_MOST, _ELEMENTS // elements))


def _activation(graph: TensorGraph, n: int) -> bool:
    """Whether a node's result is an activation.

    Vela treats wide values differently as outputs than within a graph.
    """
    return OPS[graph.nodes[n].op].kind != "leaf" and DType.of(graph.nodes[n].dtype).is_activation
