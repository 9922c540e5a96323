"""Comparison of a candidate with the reference: a proof for every input, and samples behind it."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass

from eqsat.choice.compiled import Compiled
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.proof import PROVED, Proof, Prover, SignatureError
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph, unread
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import Comparison, Reference, Unjudged
from eqsat.vela.guards import broken
from eqsat.vela.regor import RawOutput
from eqsat.verification.background import BackgroundProver
from eqsat.verification.binaries import samples_for

logger = logging.getLogger(__name__)

#: Elements of the tensors of a reference up to which proofs take less time than a process for them.
#: ESPCN has more: the same program again takes 2.6 s with a process, 3.5 s without.
_SMALL = 1 << 16
#: Seconds of processor time for the proof of a candidate.
#: Stock's ViT, the largest of the zoo, takes 18.
_PROOF_SECONDS = 60.0


#: What is said of a proof that a sample contradicts.
_REPORT = "the proof is wrong, please report this with the model"


@dataclass(frozen=True, slots=True)
class Equality:
    """The result of comparing a candidate with the reference.

    reason: why the candidate may not replace the reference, or "" if it may.
    difference: where it computes something else, "" if it is not known to.
    proof: of equality for every input, None if none was tried or it was wrong.
    undecided: why nothing is proved of a candidate that equals the reference on samples, or "".
    """

    reason: str = ""
    proof: Proof | None = None
    difference: str = ""
    undecided: str = ""

    @staticmethod
    def differing(difference: str, proof: Proof | None = None) -> Equality:
        """Returns the result for a candidate that computes something else."""
        return Equality(f"it differs from the graph before layout passes: {difference}", proof, difference)


class Verifier:
    """Compares candidates with one reference, which is run once, in the background."""

    def __init__(self, graph: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.graph, self._family, self._pool, self._options = graph, target.family, pool, options
        self._reference = pool.start(Reference, graph, pool, options.trials)
        self._prover = Prover(graph, seconds=_PROOF_SECONDS)
        large = sum(graph.type(n).elements for n in graph.live()) > _SMALL
        self._background = BackgroundProver(graph, pool, _PROOF_SECONDS) if large else None
        self._begun: dict[Compiled, Future[Proof | None]] = {}
        self._on_samples: dict[bytes, Future[Comparison]] = {}

    def reference(self) -> Reference:
        """Returns the reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def equality(self, c: Compiled) -> Equality:
        """Returns whether a candidate may replace the reference.

        One that is proved equal is still compared on a few samples, since the prover may be wrong.
        Raises Unjudged if there is nothing to compare on.
        """
        if c.name != "stock" and (guards := broken(c.graph, self.graph, self._family)):
            return Equality(f"it breaks a guard: {guards[0]}")
        if lost := set(unread(c.graph)) - set(unread(self.graph)):
            return Equality(f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read")
        proof, on_samples = None, self.begin_samples(c)
        try:
            self.reference()  # a proof is void for a graph that overflows on every input
            if c.name == "stock" and (seen := _difference(on_samples)):
                return Equality.differing(seen + self._reshaped(c))  # whatever the prover says, which takes longer
            proof = self.proof_of(c)
            if self._background is not None and (proof is None or proof.verdict != PROVED):
                proof = self._proved(self._as_read(c))  # which says why, or finds a counterexample
            seen = _difference(on_samples)
        except Unjudged:
            raise
        except WorkerError as e:
            return Equality(f"the reference model failed: {e}", proof)
        if proof is not None and proof.verdict == PROVED:
            return Equality.differing(f"{seen}, though it was proved equal: {_REPORT}") if seen else Equality("", proof)
        if proof is not None and proof.counterexample is not None:
            seen = proof.counterexample.text
        if seen:
            return Equality.differing(seen + self._reshaped(c), proof)
        why = ", ".join(o.text for o in proof.undecided) if proof is not None else "the prover failed"
        return Equality(proof=proof, undecided=why)

    def begin_samples(self, c: Compiled) -> Future[Comparison]:
        """Starts to compare a graph with the reference on the samples of its binary, once.

        Returns the pending comparison, which raises WorkerError.
        """
        if c.tosa not in self._on_samples:
            self._on_samples[c.tosa] = self._pool.start(self._compared, c)
        return self._on_samples[c.tosa]

    def _compared(self, c: Compiled) -> Comparison:
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

    def _reshaped(self, c: Compiled) -> str:
        """Returns which of a graph's results has another shape than the reference's, in words; "" if none has."""
        pairs = enumerate(zip(c.graph.signature()[1], self.graph.signature()[1]))
        found = (f" (output {k} is {list(t.shape)}, not {list(w.shape)})" for k, (t, w) in pairs if t.shape != w.shape)
        return next(found, "")

    def begin(self, c: Compiled) -> Future[Proof | None] | None:
        """Starts to prove that a graph as a whole equals the reference, once, and returns the pending proof.

        Returns None if that takes no time.
        """
        if self._background is not None and c not in self._begun:
            graph = self._as_read(c)
            self._begun[c] = self._background.start(c.tosa if graph is c.graph else dumps(graph))
        return self._begun.get(c)

    def proof_of(self, c: Compiled) -> Proof | None:
        """Returns the proof that a graph as a whole equals the reference; None if the prover fails."""
        begun = self.begin(c)
        return begun.result() if begun else self._proved(self._as_read(c))

    def proves(self, graph: TensorGraph) -> bool:
        """Returns whether a graph is proved to equal the reference."""
        proof = self._background.prove(dumps(graph)) if self._background else self._proved(graph)
        return proof is not None and proof.verdict == PROVED

    def proves_binary(self, c: Compiled, raw: RawOutput, limits: Limits) -> bool:
        """Returns whether a candidate's binary is proved to compute the reference.

        Raises WorkerError if the proof passes a limit.
        """
        if self._background is None:
            return False
        return self._background.proves_binary(raw, c.tosa, limits)

    def _proved(self, graph: TensorGraph) -> Proof | None:
        """Returns the proof that a graph equals the reference; None if the prover fails."""
        try:
            return self._prover.prove(graph)
        except SignatureError:
            return None  # the comparison on samples reports it
        except Exception:  # noqa: BLE001 - a proof that fails costs the candidate, never the result
            logger.warning("the proof of a candidate failed; it is not used", exc_info=True)
            return None


def _difference(on_samples: Future[Comparison]) -> str:
    """Returns where a graph differs from the reference on samples; "" if it does not or none of them tells.

    Raises WorkerError if the reference model fails on the graph alone.
    """
    try:
        return on_samples.result().reason
    except Unjudged:
        return ""


def _size(t: Type) -> tuple[str, int]:
    return t.dtype, t.elements
