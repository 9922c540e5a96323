"""Proofs in a process of their own, beside the search."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from eqsat.device.compile import binary_of
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.proof import PROVED, UNDECIDED, Proof, Prover
from eqsat.proof.binary import SlowProof, prove_binary
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.vela.regor import RawOutput

logger = logging.getLogger(__name__)

#: Wall-clock seconds after which a proof counts as hung.
_HUNG = 600.0
#: In the worker: the prover of the reference, if there is one.
_provers: list[Prover] = []


def begin(tosa: bytes, seconds: float) -> None:
    """Evaluates a reference, for the proofs to come; called in the worker."""
    forget()
    _provers.append(Prover(loads(tosa, "the reference"), seconds=seconds))
    _provers[0].begin()


def prove(tosa: bytes) -> tuple[float, list[int], float] | None:
    """Returns (error bound, seeds, seconds) of the proof that a graph equals the reference.

    Returns None if it is not proved. Called in the worker.
    """
    proof = _provers[0].prove(loads(tosa, "the other graph"), search=False)
    return (proof.error_bound, list(proof.seeds), proof.seconds) if proof.verdict == PROVED else None


def prove_binary_of(raw: RawOutput, tosa: bytes, seconds: float) -> tuple[bool, str]:
    """Returns whether Vela's raw output of a graph is proved to compute the reference.

    Also returns why that would take far more than `seconds` of processor time, or "".
    Called in the worker.
    """
    try:
        proof = prove_binary(loads(tosa, "the graph"), binary_of(raw), prover=_provers[0], seconds=seconds)
    except SlowProof as e:
        return False, str(e)
    return proof.verdict == PROVED, ""


def forget() -> None:
    """Frees the reference; called in the worker."""
    _provers.clear()


class BackgroundProver:
    """Proves that graphs equal a reference, one at a time, in a process of its own.

    The reference is evaluated at once, while the caller does something else.
    The proofs are of the graphs as they are written, so of the bytes that Vela compiles.
    seconds: processor time for one proof.
    """

    def __init__(self, reference: TensorGraph, pool: Pool, seconds: float) -> None:
        self._worker = pool.reserved(forget)
        self._ready = pool.start(self._begin, reference, seconds)
        self._pool = pool

    def prove(self, tosa: bytes) -> Proof | None:
        """Returns the proof, "undecided" without a place if there is none; None if the worker fails."""
        error, found = self._ask(prove, tosa, limits=Limits(_HUNG))
        if found is None:
            return None if error else Proof(UNDECIDED)
        bound, seeds, seconds = found
        return Proof(PROVED, error_bound=bound, seeds=tuple(seeds), seconds=seconds)

    def proves_binary(self, raw: RawOutput, tosa: bytes, limits: Limits) -> bool:
        """Returns whether Vela's raw output of a graph is proved to compute the reference.

        Raises WorkerError if the proof passes a limit or would, as one that evaluates the graph first would, too.
        """
        error, found = self._ask(prove_binary_of, raw, tosa, limits.cpu_seconds, limits=limits)
        if error and error.stopped:
            raise error
        proved, slow = found or (False, "")
        if slow:
            raise WorkerError(slow, stopped=True)
        return bool(proved)

    def start(self, tosa: bytes) -> Future[Proof | None]:
        """Starts a proof, and returns the pending result of `prove`."""
        return self._pool.start(self.prove, tosa)

    def _ask(self, function: Callable[..., Any], *args: Any, limits: Limits) -> tuple[WorkerError | None, Any]:
        """Returns the worker's failure if any, and its answer, once the reference is evaluated."""
        try:
            self._ready.result()
            return None, self._worker.call(function, *args, limits=limits)
        except WorkerError as e:
            logger.debug("a proof in the background failed", exc_info=True)
            return e, None

    def _begin(self, reference: TensorGraph, seconds: float) -> None:
        self._worker.call(begin, dumps(reference), seconds, limits=Limits(_HUNG))
