"""Checks of candidates' binaries: a run on the functional model, and a proof for every input.

A binary is right if it computes what its graph does.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial

from eqsat.choice.compiled import Compiled
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
from eqsat.tosa.reference import Comparison, run_samples
from eqsat.vela.compile import compile_tosa
from eqsat.verification.equality import Attempt, Verifier, samples_for

#: Elements that the functional model computes per second, about, in all tensors and samples.
#: It converts a limit in seconds into a budget of work.
#: So a busy machine runs the same binaries as an idle one.
#: Source: benchmarks/results/device.
_ELEMENTS_PER_SECOND = 2_000_000
#: Seconds after which a run counts as hung.
_HUNG = 600.0

Samples = Sequence[Sequence[Array]]


class Binaries:
    """Checks the binaries of candidates, each once, in the background.

    seconds: budget for stock's binary, and that for all others together, counted in work; 0: none is run.
    It is also the processor time for the proof of one binary.
    """

    def __init__(self, verifier: Verifier, target: Target, pool: Pool, seconds: float) -> None:
        self._verifier, self._target, self._pool, self._seconds = verifier, target, pool, seconds
        self._left, self._lock = [seconds * _ELEMENTS_PER_SECOND] * 2, threading.Lock()

    @property
    def run_at_all(self) -> bool:
        """Whether the user wants binaries to be run."""
        return self._seconds > 0

    def begin(self, c: Compiled, whatever_it_takes: bool = False) -> Future[Verdict]:
        """Starts to run the binary of a candidate, once, and returns the pending verdict.

        whatever_it_takes: also if the budget is used up.
        """
        key = c, whatever_it_takes
        return self._verifier.once(self._judge, key, *key, self._verifier.begin_samples(c))

    def verdict(self, c: Compiled, whatever_it_takes: bool = False) -> Verdict:
        """Returns whether the binary of a candidate computes what the candidate does, or why that is not known."""
        return self.begin(c, whatever_it_takes).result()

    def begin_proof(self, c: Compiled) -> Future[Attempt]:
        """Starts to prove the binary of a candidate, once, and returns the pending result."""
        self.begin(c)  # what it waits for has a thread before it has one
        return self._verifier.once(self._prove, c, c)

    def _prove(self, c: Compiled) -> Attempt:
        verdict = self.verdict(c)
        if not self.run_at_all or verdict.equal is False:
            return Attempt(False, (verdict.reason,))
        return self._verifier.prove_binary(c, raw_of(c.estimate), self._seconds)

    def _judge(self, c: Compiled, whatever_it_takes: bool, compared: Future[Comparison]) -> Verdict:
        """Returns the verdict on a candidate's binary, with the operator at which it goes wrong.

        compared: the comparison of its graph on the same samples: what the graph does is not taken for Vela's.
        """
        if not self.run_at_all:
            return Verdict(None, "binaries are not run (binary_time_limit is 0)")
        try:
            inputs, _ = self._verifier.reference().first(samples_for(c.graph))
            if not self._spend(c, len(inputs)) and not whatever_it_takes:
                return Verdict(None, f"no time was left of {self._seconds:g} s (binary_time_limit)")
            found = check(c.graph, raw_of(c.estimate), self._pool, inputs, partial(_expect, c.graph, compared), _HUNG)
        except WorkerError as e:
            return Verdict(None, str(e))
        if found.equal is False and (culprit := find_culprit(c.graph, inputs, self._target, self._pool)) is not None:
            return replace(found, reason=f"{found.reason}, from {c.graph.nodes[culprit].op} n{culprit} on")
        return found

    def _spend(self, c: Compiled, samples: int) -> bool:
        """Takes the work of running a binary from its budget; returns whether something was left of that."""
        whose = int(c.name == "stock")
        with self._lock:
            before = self._left[whose]
            self._left[whose] -= samples * sum(c.graph.type(n).elements for n in c.graph.live())
        return before > 0


def _expect(graph: TensorGraph, compared: Future[Comparison]) -> Sequence[Sequence[Array] | WorkerError]:
    """Returns a graph's outputs per sample, or why there are none. Raises WorkerError if it differs, or hides some."""
    found = compared.result()
    if not found.equal:
        raise WorkerError(f"the graph itself differs from what it was made from: {found.reason}")
    shown = next((ys for ys in found.outputs if not isinstance(ys, WorkerError)), None)
    if shown and any(y.size != graph.type(o).elements for y, o in zip(shown, graph.outputs, strict=True)):
        raise WorkerError("the reference model does not show all outputs")
    return found.outputs


def find_culprit(graph: TensorGraph, inputs: Samples, target: Target, pool: Pool) -> int | None:
    """Returns the first node up to which the graph's binary is wrong, or None; a later one if errors come and go."""
    nodes = ((n, graph.nodes[n]) for n in graph.live())
    # Vela treats wide values differently as outputs than within a graph
    inner = [n for n, node in nodes if OPS[node.op].kind != "leaf" and DType.of(node.dtype).is_activation]
    try:
        answers = run_samples(dumps(_up_to(graph, inner)), inputs, pool, _HUNG)
    except WorkerError:
        return None
    shown = [(x, a) for x, a in zip(inputs, answers, strict=True) if not isinstance(a, WorkerError)]

    def is_wrong_up_to(k: int) -> bool:
        part = _up_to(graph, [inner[k]])
        try:
            raw = raw_of(compile_tosa(dumps(part), target, pool))
            return (
                check(part, raw, pool, [x for x, _ in shown], lambda: [[a[k]] for _, a in shown], _HUNG).equal is False
            )
        except WorkerError:
            return False

    low, high = 0, len(inner)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong_up_to(middle) else (middle + 1, high)
    return inner[low] if low < len(inner) else None


def _up_to(graph: TensorGraph, nodes: Sequence[int]) -> TensorGraph:
    """Returns the graph with some nodes as its outputs."""
    return TensorGraph(nodes=graph.nodes, inputs=graph.inputs, outputs=list(nodes))
