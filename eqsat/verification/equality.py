"""Whether a candidate may replace the reference: equal to it for every input, or on samples, or near enough."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np

from eqsat.choice.compiled import Compiled
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.proof import PROVED, Proof, Prover, SignatureError
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph, unread
from eqsat.tensor.types import Array
from eqsat.tosa.reference import Reference, Unjudged
from eqsat.vela.guards import broken
from eqsat.verification.deviation import Deviation, deviation
from eqsat.verification.regions import Correspondence, compare_regions, correspondence

logger = logging.getLogger(__name__)

#: Seconds of one processor that the proof of a candidate may take; stock's ViT, the largest of the zoo, takes 18.
_PROOF_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Equality:
    """What a comparison of a candidate with the reference gave.

    reason: why it may not replace the reference, or "" if it may.
    proof: what is known for every input, None where none was tried.
    deviation: by how much a tolerant candidate differs, None if it does not.
    """

    reason: str
    proof: Proof | None = None
    deviation: Deviation | None = None


class Verifier:
    """Compares candidates with one reference, which is run once, from now on and beside what the caller does."""

    def __init__(self, graph: TensorGraph, target: Target, pool: Pool, options: Options) -> None:
        self.graph, self._family, self._pool, self._options = graph, target.family, pool, options
        self._reference = pool.start(Reference, graph, pool, options.trials)
        self._prover = Prover(graph, seconds=_PROOF_SECONDS)
        self._limits: dict[int, tuple[Array, Array] | None] = {}

    def reference(self) -> Reference:
        """The reference on its samples. Raises Unjudged."""
        return self._reference.result()

    def equality(self, c: Compiled) -> Equality:
        """Whether a candidate may replace the reference. Raises Unjudged where there is nothing to compare on."""
        if c.name != "stock" and (guards := broken(c.graph, self.graph, self._family)):
            return Equality(f"it breaks a guard: {guards[0]}")
        if lost := set(unread(c.graph)) - set(unread(self.graph)):
            return Equality(f"input {c.graph.nodes[c.graph.inputs[min(lost)]].attr('name')!r} would no longer be read")
        proof = None
        try:
            if c.tolerant:
                return self._nearness(c)
            same = correspondence(c.choices.frozen, c.graph, c.classes) if c.choices else None
            self.reference()  # a proof says nothing of a graph that overflows whatever its inputs are
            proof = self.proved(c.graph, same)
            if proof is not None and proof.verdict == PROVED:
                return Equality("", proof)
            shown = proof.counterexample if proof is not None else None
            reason = shown.text if shown is not None else self.difference(c.graph, same)
        except Unjudged:
            raise
        except WorkerError as e:
            return Equality(f"the reference model failed: {e}", proof)
        return Equality(f"it differs from the graph before layout passes: {reason}" if reason else "", proof)

    def proved(self, graph: TensorGraph, same: Correspondence | None = None) -> Proof | None:
        """What is known of the equality of a graph and the reference for every input; None where the checker fails."""
        try:
            return self._prover.prove(graph, same.claims() if same else ())
        except SignatureError:
            return None  # which the comparison on samples tells in words
        except Exception:  # noqa: BLE001 - a proof that fails costs samples, never the result
            logger.warning("the proof of a candidate failed; it is compared on samples", exc_info=True)
            return None

    def difference(self, graph: TensorGraph, same: Correspondence | None = None) -> str:
        """Where a graph differs from the reference, or "": in its outputs and, where it is known which of its values
        the reference has too, in those and in the regions between them. Raises WorkerError."""
        outcome = self.reference().compare(graph, same.claims() if same else ())
        if outcome.equal and same is not None:
            return compare_regions(self.graph, graph, same, self.seen).reason
        return outcome.reason

    def seen(self, node: int) -> tuple[Array, Array] | None:
        """Smallest and largest value of a node of the reference on the samples, per index of the last axis."""
        if node not in self._limits:
            values = [v.reshape(-1, v.shape[-1] if v.ndim else 1) for v in self.reference().values(node)]
            self._limits[node] = (
                (np.min([v.min(0) for v in values], 0), np.max([v.max(0) for v in values], 0)) if values else None
            )
        return self._limits[node]

    def _nearness(self, c: Compiled) -> Equality:
        """Whether a tolerant candidate is near enough to the reference."""
        found = deviation(self.graph, c.graph, self._pool, self._options.trials)
        far, most = max(found.largest), self._options.tolerance
        reason = f"it differs from the exact graph by {far:g} steps, more than {most:g}" if far > most else ""
        return Equality(reason, deviation=found if any(found.largest) else None)
