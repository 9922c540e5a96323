"""Comparison of a candidate with the reference: a proof for every input, and samples behind it.

Proofs run in a process of their own, beside the search, of the bytes that Vela compiles.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from eqsat.choice.compiled import Compiled
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph, find_unread
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import Comparison, Reference, Unjudged
from eqsat.vela.defects import find_broken
from eqsat.vela.regor import RawOutput
from eqsat.verification.worker import Told, evaluate, forget, prove, prove_raw

logger = logging.getLogger(__name__)

#: Wall-clock seconds after which a proof counts as hung.
_HUNG = 600.0
_LIMITS = Limits(_HUNG)
#: MiB of memory that the proof of a binary may take.
_PROOF_MIB = 4096
#: Elements that a comparison of a binary computes in all tensors and samples, about.
_ELEMENTS = 1 << 22
#: Samples per binary, at most.
_MOST = 16
#: What is said of a proof that a sample contradicts.
_REPORT = "the proof is wrong, please report this with the model"


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of trying to prove that a graph or its binary computes the reference, for every input.

    undecided: where the proof ended, or why there is none.
    error_bound: the highest probability that "proved" is wrong.
    counterexample: where it computes something else, "" if it is not known to.
    unusable: why the graph may not replace the reference whatever it computes, or "".
    """

    proved: bool
    undecided: tuple[str, ...] = ()
    error_bound: float = 1.0
    counterexample: str = ""
    unusable: str = ""


_Value = TypeVar("_Value")


class Verifier:
    """Compares candidates with one reference, which is run and evaluated once, beside the caller."""

    def __init__(self, graph: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.graph, self._family, self._pool = graph, target.family, pool
        self._reference = pool.start(Reference, graph, pool)
        self._tosa, self._worker = dumps(graph), pool.reserve(forget)
        pool.start(partial(self._worker.call, evaluate, self._tosa, limits=_LIMITS))
        self._begun: dict[tuple[object, object], Future[Any]] = {}
        self._lock = threading.Lock()

    def once(self, function: Callable[..., _Value], key: object, *given: Any) -> Future[_Value]:
        """Starts a call in a thread of its own, once for each key, and returns the pending result."""
        with self._lock:
            if (function, key) not in self._begun:
                self._begun[function, key] = self._pool.start(function, *given)
            return self._begun[function, key]

    def reference(self) -> Reference:
        """Returns the reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def equality(self, c: Compiled) -> Attempt:
        """Returns whether a candidate may replace the reference; a graph with other settings is the same graph.

        One that is proved equal is still compared on a few samples, since the prover may be wrong.
        Raises Unjudged if there is nothing to compare on.
        """
        return self.once(self._equality, (c.name, c.tosa), c).result()

    def _equality(self, c: Compiled) -> Attempt:
        if c.name != "stock" and (guards := find_broken(c.graph, self.graph, self._family)):
            return Attempt(False, unusable=f"it breaks a guard: {guards[0]}")
        if lost := set(find_unread(c.graph)) - set(find_unread(self.graph)):
            name = c.graph.nodes[c.graph.inputs[min(lost)]].attr("name")
            return Attempt(False, unusable=f"input {name!r} would no longer be read")
        proof, on_samples = Attempt(False), self.begin_samples(c)
        try:
            self.reference()  # a proof is void for a graph that overflows on every input
            if c.name == "stock" and (seen := _difference(on_samples)):
                # whatever the prover says, which takes longer
                return Attempt(False, counterexample=seen + self._describe_shape(c))
            proof = self.begin(c).result()
            if not proof.proved:
                proof = self._prove(c, search=True)  # which says why, or finds a counterexample
            seen = _difference(on_samples)
        except Unjudged:
            raise
        except WorkerError as e:
            return replace(proof, unusable=f"the reference model failed: {e}")
        if seen and proof.proved:
            return Attempt(False, counterexample=f"{seen}, though it was proved equal: {_REPORT}")
        if seen := proof.counterexample or seen:
            return replace(proof, counterexample=seen + self._describe_shape(c))
        return proof

    def begin_samples(self, c: Compiled) -> Future[Comparison]:
        """Starts to compare a graph with the reference on the samples of its binary, once; it raises WorkerError."""
        return self.once(self._compare, c.tosa, c)

    def _compare(self, c: Compiled) -> Comparison:
        number = samples_for(c.graph)
        if c.name == "explicit":
            outputs = self.reference().first(number)[1]
            return Comparison(True, 0.0, judged=len(outputs), outputs=outputs)
        return self.reference().compare(self._as_read(c), number=number)

    def _as_read(self, c: Compiled) -> TensorGraph:
        """Returns a candidate's graph with results in the reference's shapes, where they differ in shape alone.

        Stock's may: the runtime copies the bytes of a delegate's results, whatever their shapes are.
        """
        wanted, own = self.graph.signature()[1], c.graph.signature()[1]
        if own == wanted or [_size(t) for t in own] != [_size(t) for t in wanted]:
            return c.graph
        read = TensorGraph(nodes=list(c.graph.nodes), inputs=c.graph.inputs)
        pairs = zip(c.graph.outputs, own, wanted, strict=True)
        read.outputs = [n if t == w else read.add("reshape", [n], shape=w.shape) for n, t, w in pairs]
        return read

    def _describe_shape(self, c: Compiled) -> str:
        """Returns which of a graph's results has another shape than the reference's; "" if none has."""
        pairs = enumerate(zip(c.graph.signature()[1], self.graph.signature()[1]))
        found = (f" (output {k} is {list(t.shape)}, not {list(w.shape)})" for k, (t, w) in pairs if t.shape != w.shape)
        return next(found, "")

    def begin(self, c: Compiled) -> Future[Attempt]:
        """Starts to prove that a graph equals the reference, once, and returns the pending proof."""
        return self.once(self._prove, c.tosa, c, False)

    def _prove(self, c: Compiled, search: bool) -> Attempt:
        graph = self._as_read(c)
        return self._attempt(prove, c.tosa if graph is c.graph else dumps(graph), search)

    def prove_binary(self, c: Compiled, raw: RawOutput, seconds: float) -> Attempt:
        """Returns the proof that the binary of a candidate computes the reference, or what the candidate does.

        seconds: of processor time, so that a busy machine proves what an idle one does.
        """
        return self._attempt(prove_raw, c.tosa, raw, seconds, limits=Limits(_HUNG, _PROOF_MIB))

    def proves(self, graph: TensorGraph) -> bool:
        """Returns whether a graph is proved to equal the reference."""
        return self._attempt(prove, dumps(graph), False).proved

    def _attempt(self, function: Callable[..., Told], *given: Any, limits: Limits = _LIMITS) -> Attempt:
        """Returns what the worker tells of a proof, or why it fails."""
        try:
            proved, undecided, bound, found = self._worker.call(function, self._tosa, *given, limits=limits)
        except Exception as e:  # noqa: BLE001 - a failed proof is only less knowledge, never a wrong result
            logger.debug("a proof failed", exc_info=True)
            stopped = isinstance(e, WorkerError) and e.stopped
            why = f"the proof failed: {e}" if not stopped else f"the proof passed the {str(e).rpartition(' the ')[2]}"
            return Attempt(False, (why,))
        return Attempt(proved, tuple(undecided), bound, found)


def samples_for(graph: TensorGraph) -> int:
    """Returns the number of samples on which a graph's binary is run; large graphs get fewer."""
    elements = sum(graph.type(n).elements for n in graph.live())
    return max(2, min(_MOST, _ELEMENTS // elements))


def _difference(on_samples: Future[Comparison]) -> str:
    """Returns where a graph differs on samples; "" if none tells. Raises WorkerError if the reference model fails."""
    try:
        return on_samples.result().reason
    except Unjudged:
        return ""


def _size(t: Type) -> tuple[str, int]:
    return t.dtype, t.elements
