"""Proofs in a worker, which imports nothing of the search and keeps one reference.

The reference is known by its bytes: a worker that was killed evaluates it again.
"""

from __future__ import annotations

import time
from functools import lru_cache

from eqsat.device.binary import binary_of
from eqsat.proof import PROVED, Prover
from eqsat.proof.binary import prove_binary
from eqsat.tosa.flatbuffer import loads
from eqsat.vela.regor import RawOutput

#: Seconds of processor time for the proof of a candidate.
#: Stock's ViT, the largest of the zoo, takes 18.
_PROOF_SECONDS = 60.0
#: What a worker tells of a proof, see `Attempt`: whether it is one, where it ended, its error, and a counterexample.
Told = tuple[bool, list[str], float, str]


@lru_cache(maxsize=1)
def _prover(reference: bytes) -> Prover:
    """Returns the prover of a reference, which is evaluated once."""
    return Prover(loads(reference, "the reference"), seconds=_PROOF_SECONDS)


def evaluate(reference: bytes) -> None:
    _prover(reference).begin()


def prove(reference: bytes, tosa: bytes, search: bool) -> Told:
    """Tells whether a graph equals the reference. search: whether to look for a counterexample otherwise."""
    proof = _prover(reference).prove(loads(tosa, "the other graph"), search=search)
    found = proof.counterexample.text if proof.counterexample else ""
    return proof.verdict == PROVED, [o.text for o in proof.undecided], proof.error_bound, found


def prove_raw(reference: bytes, tosa: bytes, raw: RawOutput, seconds: float) -> Told:
    """Tells whether Vela's raw output of a graph computes the reference, or else the graph. seconds: of a processor."""
    until = time.thread_time() + seconds
    graph, binary = loads(tosa, "the graph"), binary_of(raw)
    proof = prove_binary(graph, binary, prover=_prover(reference), until=until)
    if proof.verdict != PROVED and time.thread_time() < until:  # the other proof says where it ends
        proof = prove_binary(graph, binary, until=until)
    return proof.verdict == PROVED, [o.text for o in proof.undecided], proof.error_bound, ""


def forget() -> None:
    """Frees the reference."""
    _prover.cache_clear()
