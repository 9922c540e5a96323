"""Comparison of a candidate with the reference: for every input, on samples, or approximate."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np

from eqsat.choice.compiled import Compiled
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.proof import PROVED, Proof, Prover, SignatureError
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph, unread
from eqsat.tensor.types import Array
from eqsat.tosa.reference import Reference, Unjudged
from eqsat.vela.guards import broken
from eqsat.vela.regor import RawOutput
from eqsat.verification.background import BackgroundProver
from eqsat.verification.deviation import Deviation, deviation
from eqsat.verification.regions import Correspondence, compare_regions, correspondence

logger = logging.getLogger(__name__)

#: Elements of the tensors of a reference up to which proofs take less time than a process for them.
#: ESPCN has more: the same program again takes 2.6 s with a process, 3.5 s without.
_SMALL = 1 << 16
#: Seconds of processor time for the proof of a candidate.
#: Stock's ViT, the largest of the zoo, takes 18.
_PROOF_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Equality:
    """The result of comparing a candidate with the reference.

    reason: why the candidate may not replace the reference, or "" if it may.
    proof: of equality for every input, None if none was tried.
    deviation: of a tolerant candidate, None if it does not differ.
    doubt: a difference of one part for values that the whole was not seen to have, or "".
    """

    reason: str
    proof: Proof | None = None
    deviation: Deviation | None = None
    doubt: str = ""


class Verifier:
    """Compares candidates with one reference, which is run once, in the background."""

    def __init__(self, graph: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.graph, self._family, self._pool, self._options = graph, target.family, pool, options
        self._reference = pool.start(Reference, graph, pool, options.trials)
        self._prover = Prover(graph, seconds=_PROOF_SECONDS)
        large = sum(graph.type(n).elements for n in graph.live()) > _SMALL
        self._background = BackgroundProver(graph, pool, _PROOF_SECONDS) if large else None
        self._begun: dict[Compiled, Future[Proof | None]] = {}
        self._limits: dict[int, tuple[Array, Array] | None] = {}

    def reference(self) -> Reference:
        """Returns the reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def equality(self, c: Compiled) -> Equality:
        """Returns whether a candidate may replace the reference.

        Raises Unjudged if there is nothing to compare on.
        """
        if c.name != "stock" and (guards := broken(c.graph, self.graph, self._family)):
            return Equality(f"it breaks a guard: {guards[0]}")
        if lost := set(unread(c.graph)) - set(unread(self.graph)):
            return Equality(f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read")
        proof = None
        try:
            if c.tolerant:
                return self._nearness(c)
            same = correspondence(c.choices.frozen, c.graph, c.classes) if c.choices else None
            self.reference()  # a proof is void for a graph that overflows on every input
            proof = self.proof_of(c) if self._background is not None else None
            if proof is None or proof.verdict != PROVED:
                proof = self.proved(c.graph, same)
            if proof is not None and proof.verdict == PROVED:
                return Equality("", proof)
            shown = proof.counterexample if proof is not None else None
            reason, doubt = (shown.text, "") if shown is not None else self.difference(c.graph, same)
        except Unjudged:
            raise
        except WorkerError as e:
            return Equality(f"the reference model failed: {e}", proof)
        return Equality(
            f"it differs from the graph before layout passes: {reason}" if reason else "", proof, doubt=doubt
        )

    def begin(self, c: Compiled) -> Future[Proof | None] | None:
        """Starts to prove that a graph as a whole equals the reference, once, and returns the pending proof.

        Returns None if that takes no time.
        """
        if self._background is not None and c not in self._begun:
            self._begun[c] = self._background.start(c.tosa)
        return self._begun.get(c)

    def proof_of(self, c: Compiled) -> Proof | None:
        """Returns the proof that a graph as a whole equals the reference; None if the prover fails."""
        begun = self.begin(c)
        return begun.result() if begun else self.proved(c.graph)

    def proves_binary(self, c: Compiled, raw: RawOutput, limits: Limits) -> bool:
        """Returns whether a candidate's binary is proved to compute the reference.

        Raises WorkerError if the proof passes a limit.
        """
        if self._background is None or c.tolerant:
            return False
        return self._background.proves_binary(raw, c.tosa, limits)

    def proved(self, graph: TensorGraph, same: Correspondence | None = None) -> Proof | None:
        """Returns the proof that a graph equals the reference; None if the prover fails.

        same: which of the graph's values the reference is said to have.
        """
        try:
            return self._prover.prove(graph, same.claims() if same else ())
        except SignatureError:
            return None  # the comparison on samples reports it
        except Exception:  # noqa: BLE001 - a proof that fails costs samples, never the result
            logger.warning("the proof of a candidate failed; it is compared on samples", exc_info=True)
            return None

    def difference(self, graph: TensorGraph, same: Correspondence | None = None) -> tuple[str, str]:
        """Returns (where a graph differs from the reference on samples, where it may).

        Either is "" if there is none.
        With `same`, it also compares inner values and the regions between them. Raises WorkerError.
        """
        outcome = self.reference().compare(graph, same.claims() if same else ())
        if outcome.equal and same is not None:
            regions = compare_regions(self.graph, graph, same, self.seen)
            return regions.reason, regions.doubt
        return outcome.reason, ""

    def seen(self, node: int) -> tuple[Array, Array] | None:
        """Returns the smallest and largest value of a node of the reference on the samples.

        The values are per index of the last axis. Returns None if the model does not show the node.
        """
        if node not in self._limits:
            values = [v.reshape(-1, v.shape[-1] if v.ndim else 1) for v in self.reference().values(node)]
            self._limits[node] = (
                (np.min([v.min(0) for v in values], 0), np.max([v.max(0) for v in values], 0)) if values else None
            )
        return self._limits[node]

    def _nearness(self, c: Compiled) -> Equality:
        """Returns whether a tolerant candidate is within the tolerance."""
        found = deviation(self.graph, c.graph, self._pool, self._options.trials)
        far, most = max(found.largest), self._options.tolerance
        reason = f"it differs from the exact graph by {far:g} steps, more than {most:g}" if far > most else ""
        return Equality(reason, deviation=found if any(found.largest) else None)
