"""Whether what Vela makes of a candidate computes what the candidate says: its binary on the functional model, within a
budget of work."""

from __future__ import annotations

import threading
from collections.abc import Sequence

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

#: Elements that a comparison computes, about, in all tensors and samples, and samples at most.
_ELEMENTS, _MOST = 1 << 22, 16
#: The first samples of a graph are the lowest and the highest values everywhere, which show less than others.
_PLAIN = 2
#: Elements in all tensors and samples that the functional model computes in a second, about: what turns a limit in
#: seconds into a budget of work, so that a busy machine runs the same binaries as an idle one
#: (benchmarks/results/device).
_ELEMENTS_PER_SECOND = 2_000_000
#: Seconds after which a run counts as hung.
_HUNG = 600.0

Samples = Sequence[Sequence[Array]]


class Binaries:
    """Judges binaries for a target.

    seconds: for all of them together, counted in work; 0: none is run.
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
        tosa: bytes,
        raw: RawOutput,
        inputs: Samples,
        expected: Samples | None = None,
        whatever_it_takes: bool = False,
    ) -> Verdict:
        """Whether the binary of a graph computes on `inputs` what is expected, by default what the reference model
        gives for the graph.

        whatever_it_takes: run it though the budget is used up.
        """
        if not self.run_at_all:
            return Verdict(None, "binaries are not run (binary_time_limit is 0)")
        kept = _chosen(graph, len(inputs))
        work = len(kept) * sum(graph.type(n).elements for n in graph.live())
        with self._lock:
            if self._left <= 0 and not whatever_it_takes:
                return Verdict(None, f"no time was left of {self._asked:g} s (binary_time_limit)")
            self._left -= work
        try:
            return self._verdict(graph, tosa, raw, [inputs[k] for k in kept], expected and [expected[k] for k in kept])
        except WorkerError as e:
            return Verdict(None, str(e))

    def _verdict(
        self, graph: TensorGraph, tosa: bytes, raw: RawOutput, inputs: Samples, expected: Samples | None
    ) -> Verdict:
        if expected is None:
            answers = run_samples(tosa, inputs, self._pool, _HUNG)
            pairs = [(x, a) for x, a in zip(inputs, answers, strict=True) if not isinstance(a, WorkerError)]
            inputs, expected = [x for x, _ in pairs], [a for _, a in pairs]
        if not inputs or any(y.shape != graph.type(o).shape for y, o in zip(expected[0], graph.outputs, strict=True)):
            return Verdict(None, "the reference model does not show all outputs")
        return check(graph, raw, self._pool, inputs, expected, _HUNG)

    def culprit(self, graph: TensorGraph, inputs: Samples) -> int | None:
        """The first node, in the order of the graph, up to which the graph's binary is wrong, if that can be told.

        It is found by halving, so that it may be a later one where errors come and go.
        """
        inner = [n for n in graph.live() if _activation(graph, n)]
        low, high = 0, len(inner)
        while low < high:
            middle = (low + high) // 2
            if self._is_wrong_up_to(graph, inner[middle], inputs):
                high = middle
            else:
                low = middle + 1
        return inner[low] if low < len(inner) else None

    def _is_wrong_up_to(self, graph: TensorGraph, node: int, inputs: Samples) -> bool:
        part = TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=[node], output_names=["y"])
        tosa = dumps(part)
        try:
            raw = raw_of(compile_tosa(tosa, self._target, self._pool))
        except WorkerError:
            return False
        return self.verdict(part, tosa, raw, inputs, whatever_it_takes=True).equal is False


def _chosen(graph: TensorGraph, samples: int) -> list[int]:
    """Which samples, by number: fewer of a large graph."""
    elements = sum(graph.type(n).elements for n in graph.live())
    order = [*range(_PLAIN, samples), *range(min(_PLAIN, samples))]
    return order[: max(2, min(_MOST, _ELEMENTS // elements))]


def _activation(graph: TensorGraph, n: int) -> bool:
    """Whether a node gives an activation: Vela treats wide values that are outputs otherwise than those within a
    graph."""
    return OPS[graph.nodes[n].op].kind != "leaf" and DType.of(graph.nodes[n].dtype).is_activation
