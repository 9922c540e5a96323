"""Verdicts on candidates' binaries, and proofs of them."""

from __future__ import annotations

import logging
from concurrent.futures import Future
from dataclasses import dataclass

from eqsat.choice.compiled import Compiled
from eqsat.device.compile import raw_of
from eqsat.device.verification import Verdict
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.proof.binary import prove_raw
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import written_names
from eqsat.tosa.reference import Comparison, Unjudged
from eqsat.vela.regor import RawOutput
from eqsat.verification.binaries import Binaries, Outputs, samples_for
from eqsat.verification.equality import Verifier

logger = logging.getLogger(__name__)

#: MiB of memory that the proof of a binary may take.
_PROOF_MIB = 4096
#: Wall-clock seconds after which the proof of a binary counts as hung.
_HUNG = 600.0
#: What is said of a proof that is left out.
_UNDECIDED_BEFORE = "not tried again: the proof for the known answer ended without a result"


@dataclass(frozen=True, slots=True)
class BinaryProof:
    """The result of proving a binary.

    proved: whether it computes what its graph does for every input; None: that was not proved.
    undecided: the commands at which the proof ended, or why there is none.
    is_final: whether another try with the same limits would most likely end alike.
    """

    proved: bool | None
    undecided: tuple[str, ...] = ()
    is_final: bool = True


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a binary.

    culprit: the node from which on a wrong binary is wrong, if known.
    reason: what is wrong, with that operator.
    """

    verdict: Verdict
    culprit: int | None = None
    reason: str = ""


class BinaryChecks:
    """Verdicts on candidates' binaries, each given once, in the background.

    Stock's binary has a budget of its own, as large as that of all others together.
    seconds: each of these budgets, and the processor time for the proof of one binary.
    So a busy machine proves what an idle one does.
    """

    def __init__(self, verifier: Verifier, target: Target, pool: Pool, seconds: float) -> None:
        self._verifier, self._pool, self._limits = verifier, pool, Limits(_HUNG, _PROOF_MIB, seconds)
        self._of_stock, self._of_others = (Binaries(target, pool, seconds) for _ in range(2))
        self._judged: dict[tuple[Compiled, bool], Future[Judged]] = {}
        self._proofs: dict[Compiled, Future[BinaryProof]] = {}

    @property
    def run_at_all(self) -> bool:
        """Whether the user wants binaries to be run."""
        return self._of_others.run_at_all

    def begin(self, c: Compiled, whatever_it_takes: bool = False) -> Future[Judged]:
        """Starts to check the binary of a candidate, once, and returns the pending verdict."""
        key = c, whatever_it_takes
        if key not in self._judged:
            compared = self._verifier.begin_samples(c)
            self._judged[key] = self._pool.start(self._judge, c, whatever_it_takes, compared)
        return self._judged[key]

    def verdict(self, c: Compiled, whatever_it_takes: bool = False) -> Verdict:
        """Returns whether the binary of a candidate computes what the candidate does."""
        return self.begin(c, whatever_it_takes).result().verdict

    def begin_proof(self, c: Compiled) -> Future[BinaryProof]:
        """Starts to prove the binary of a candidate, once, and returns the pending result."""
        if c not in self._proofs:
            self.begin(c)  # here, as two threads that begin it would run the binary twice
            self._proofs[c] = self._pool.start(self._proof, c)
        return self._proofs[c]

    def leave_undecided(self, c: Compiled) -> None:
        """Leaves out the proof of a candidate's binary, as an earlier one of its kind ended without a result."""
        self._proofs[c] = Future()
        self._proofs[c].set_result(BinaryProof(None, (_UNDECIDED_BEFORE,)))

    def _proof(self, c: Compiled) -> BinaryProof:
        verdict = self.verdict(c)
        if not self.run_at_all or verdict.equal is False:
            return BinaryProof(None, (verdict.reason,))
        raw = raw_of(c.estimate)
        try:
            if self._verifier.proves_binary(c, raw, self._limits):
                return BinaryProof(True)
            proved, undecided = self._pool.call(prove_raw, raw, c.tosa, self._limits.cpu_seconds, limits=self._limits)
            return BinaryProof(proved or None, tuple(undecided))
        except Exception as e:  # noqa: BLE001 - a failed proof is only less knowledge, never a wrong result
            logger.debug("the proof of a binary failed", exc_info=True)
            return BinaryProof(None, (f"the proof failed: {e}",), isinstance(e, WorkerError) and e.stopped)

    def _judge(self, c: Compiled, whatever_it_takes: bool, compared: Future[Comparison]) -> Judged:
        """Returns the verdict on a candidate's binary.

        compared: the pending comparison of its graph on the same samples, whose outputs are expected.
        So nothing that the graph does is taken for Vela's.
        """
        binaries = self._of_stock if c.name == "stock" else self._of_others

        def expected() -> Outputs:
            found = compared.result()
            if not found.equal:
                raise WorkerError(f"the graph itself differs from what it was made from: {found.reason}")
            return found.outputs

        try:
            inputs, _ = self._verifier.reference().first(samples_for(c.graph))
            raw = raw_of(c.estimate)
            found = binaries.verdict(c.graph, raw, inputs, expected, whatever_it_takes)
        except Unjudged as e:
            return Judged(Verdict(None, str(e)))
        if found.equal is not False:
            return Judged(found)
        culprit = commanded(c.graph, raw, found.offset)
        if culprit is None:
            culprit = binaries.culprit(c.graph, inputs)
        operator = "" if culprit is None else f", from {c.graph.nodes[culprit].op} n{culprit} on"
        return Judged(found, culprit, found.reason + operator)


def commanded(graph: TensorGraph, raw: RawOutput, offset: int) -> int | None:
    """Returns the node that a command is made from, None if that is not known.

    offset: of the command in the stream, in bytes.
    """
    result = dict(raw["operators"]).get(offset)
    return next((n for n, name in written_names(graph).items() if name == result), None)
