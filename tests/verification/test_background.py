"""Proofs in the background are those of the prover, and a worker that dies costs time alone."""

from __future__ import annotations

import os
import re
import signal

import pytest

from eqsat.device.compile import raw_of
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.tensor.graph import TensorGraph
from eqsat.verification import equality
from eqsat.verification.equality import Verifier
from tests.fake_oracle import by_vela
from tests.graphs import U55
from tests.term import inputs, outputs


def rotated(*perms: tuple[int, ...], low: int = 0) -> TensorGraph:
    """A RELU behind TRANSPOSEs."""
    (x,) = inputs("x:INT8[1,2,3,4]")
    for p in perms:
        x = x.transpose(*p)
    return outputs(x.relu(low))


REFERENCE, EQUAL = rotated((0, 2, 3, 1), (0, 2, 3, 1)), rotated((0, 3, 1, 2))


@pytest.fixture
def verifier(pool: Pool) -> Verifier:
    return Verifier(REFERENCE, U55, pool, Options())


def test_equal_graphs_are_proved_and_others_are_not(verifier: Verifier, pool: Pool) -> None:
    proof = verifier.begin(by_vela(EQUAL, U55, pool)).result()
    assert proof.proved and 0 < proof.error_bound < 2.0**-60
    for other in (rotated((0, 3, 1, 2), low=1), rotated((0, 2, 3, 1))):  # another value, another shape
        candidate = by_vela(other, U55, pool)
        assert not verifier.begin(candidate).result().proved
        found = verifier._prove(candidate, search=True)
        assert found.counterexample and found.error_bound == 1 and verifier.equality(candidate).counterexample


def test_a_binary_is_proved_to_compute_the_reference(verifier: Verifier, pool: Pool) -> None:
    """Or else what its graph does, as of stock's graph where that is not proved."""
    right, other = (by_vela(g, U55, pool) for g in (EQUAL, rotated((0, 3, 1, 2), low=1)))
    assert verifier.prove_binary(right, raw_of(right.estimate), 60).proved
    assert verifier.prove_binary(other, raw_of(other.estimate), 60).proved
    wrong = verifier.prove_binary(right, raw_of(other.estimate), 60)
    assert not wrong.proved and wrong.undecided


def test_a_proof_that_takes_too_long_says_so(verifier: Verifier, pool: Pool) -> None:
    candidate = by_vela(EQUAL, U55, pool)
    late = verifier.prove_binary(candidate, raw_of(candidate.estimate), 1e-9)
    assert not late.proved
    assert re.search("of (computing|processor time)", late.undecided[0]), "the worker's limit, or what is left"


def test_a_proof_that_takes_too_much_memory_says_so(
    verifier: Verifier, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equality, "_PROOF_MIB", 1)
    candidate = by_vela(EQUAL, U55, pool)
    (why,) = verifier.prove_binary(candidate, raw_of(candidate.estimate), 60).undecided
    assert "memory limit" in why


def test_a_graph_is_proved_though_the_worker_is_killed(verifier: Verifier, pool: Pool) -> None:
    candidate, other = (by_vela(g, U55, pool) for g in (EQUAL, REFERENCE))
    assert verifier.begin(candidate).result().proved
    process = verifier._worker._worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert verifier.begin(other).result().proved
