"""Whether what Vela makes of a candidate computes what the candidate says: its binary on the functional model, within a limit of time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from eqsat.device.verification import Verdict, check
from eqsat.target import Target
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import run_samples
from eqsat.workers.worker import Pool, WorkerError

#: Elements that a comparison computes, about, in all tensors and samples, and samples at most.
_ELEMENTS, _MOST = 1 << 22, 16
#: The first samples of a graph are the lowest and the highest values everywhere, which show less than others.
_PLAIN = 2

Samples = Sequence[Sequence[np.ndarray]]


class Binaries:
    """Judges binaries for a target. seconds: for all of them together; 0: none is run."""

    def __init__(self, target: Target, pool: Pool, seconds: float) -> None:
        self._target, self._pool, self._asked, self._left = target, pool, seconds, seconds

    def verdict(self, graph: TensorGraph, tosa: bytes, inputs: Samples, expected: Samples | None = None) -> Verdict:
        """Whether the binary of a graph computes on `inputs` what is expected, by default what the reference model gives for the graph."""
        if self._asked <= 0:
            return Verdict(None, "binaries are not run (binary_time_limit is 0)")
        started = time.monotonic()
        try:
            return self._verdict(graph, tosa, inputs, expected)
        except WorkerError as e:
            return Verdict(None, str(e))
        finally:
            self._left -= time.monotonic() - started

    def _verdict(self, graph: TensorGraph, tosa: bytes, inputs: Samples, expected: Samples | None) -> Verdict:
        if self._left <= 0:
            return Verdict(None, f"no time was left of {self._asked:g} s (binary_time_limit)")
        kept = _chosen(graph, len(inputs))
        inputs = [inputs[k] for k in kept]
        if expected is None:
            answers = run_samples(tosa, inputs, self._pool, self._left)
            pairs = [(x, a) for x, a in zip(inputs, answers, strict=True) if not isinstance(a, WorkerError)]
            inputs, expected = [x for x, _ in pairs], [a for _, a in pairs]
        else:
            expected = [expected[k] for k in kept]
        if not inputs or any(y.shape != graph.type(o).shape for y, o in zip(expected[0], graph.outputs, strict=True)):
            return Verdict(None, "the reference model does not show all outputs")
        return check(tosa, self._target, self._pool, inputs, expected, max(0.1, self._left))

    def culprit(self, graph: TensorGraph, inputs: Samples) -> str:
        """The first operator, in the order of the graph, up to which the graph's binary is wrong, or "": found by halving, so that it may be
        a later one where errors come and go."""
        inner = [n for n in graph.live() if _activation(graph, n)]
        low, high = 0, len(inner)
        while low < high:
            middle = (low + high) // 2
            part = TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=[inner[middle]], output_names=["y"])
            if self.verdict(part, dumps(part), inputs).equal is False:
                high = middle
            else:
                low = middle + 1
        return f"{graph.nodes[inner[low]].op} n{inner[low]}" if low < len(inner) else ""


def _chosen(graph: TensorGraph, samples: int) -> list[int]:
    """Which samples, by number: fewer of a large graph."""
    elements = sum(graph.type(n).elements for n in graph.live())
    order = [*range(_PLAIN, samples), *range(min(_PLAIN, samples))]
    return order[: max(2, min(_MOST, _ELEMENTS // elements))]


def _activation(graph: TensorGraph, n: int) -> bool:
    """Whether a node gives an activation: Vela treats wide values that are outputs otherwise than those within a graph."""
    return OPS[graph.nodes[n].op].kind != "leaf" and DType.of(graph.nodes[n].dtype).is_activation
