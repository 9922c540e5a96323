"""Proofs in the background are those of the prover, and a worker that fails costs time alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from eqsat.device.compile import raw_of
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.proof import PROVED, UNDECIDED
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from eqsat.verification import background
from eqsat.verification import equality as equality_module
from eqsat.verification.background import BackgroundProver
from eqsat.verification.equality import Verifier
from eqsat.verification.judging import commanded
from tests.fake_oracle import by_vela
from tests.graphs import conv, finish, relu, transpose

U55 = Target.of("ethos-u55-128")


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(1) as pool:
        yield pool


def rotated(*perms: tuple[int, ...], low: int = 0) -> TensorGraph:
    """A RELU behind TRANSPOSEs."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 3, 4), "INT8")
    for p in perms:
        x = transpose(g, x, *p)
    return finish(g, relu(g, x, low))


REFERENCE, EQUAL = rotated((0, 2, 3, 1), (0, 2, 3, 1)), rotated((0, 3, 1, 2))


def test_equal_graphs_are_proved_and_others_are_not(pool: Pool) -> None:
    prover = BackgroundProver(REFERENCE, pool, 60.0)
    proof = prover.start(dumps(EQUAL)).result()
    assert proof is not None and proof.verdict == PROVED and 0 < proof.error_bound < 2.0**-60 and proof.seeds
    for other in (rotated((0, 3, 1, 2), low=1), rotated((0, 2, 3, 1))):  # another value, another shape
        found = prover.prove(dumps(other))
        assert found is None or found.verdict == UNDECIDED


def test_a_binary_is_proved_to_compute_the_reference(pool: Pool) -> None:
    prover = BackgroundProver(REFERENCE, pool, 60.0)
    for graph, is_right in ((EQUAL, True), (rotated((0, 3, 1, 2), low=1), False)):
        tosa = dumps(graph)
        raw = raw_of(compile_tosa(tosa, U55, pool))
        assert prover.proves_binary(raw, tosa, Limits()) is is_right
    with pytest.raises(WorkerError, match="stopped"):
        prover.proves_binary(raw, tosa, Limits(seconds=0.0))


def test_a_command_is_traced_to_its_operator(pool: Pool) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    first = conv(g, x, 16, 3)
    graph = finish(g, conv(g, first, 8))
    raw = raw_of(compile_tosa(dumps(graph), U55, pool))
    found = [commanded(graph, raw, offset) for offset, _ in sorted(raw["operators"])]
    operators = [graph.nodes[first].inputs[0], graph.nodes[graph.outputs[0]].inputs[0]]
    assert list(dict.fromkeys(found)) == operators and commanded(graph, raw, -1) is None


def test_a_graph_is_proved_where_the_worker_has_died(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equality_module, "_SMALL", 0)
    verifier = Verifier(REFERENCE, U55, pool, Options())
    assert verifier._background is not None and verifier._background._ready.result() is None
    verifier._background._worker.call(background.forget, limits=Limits())
    candidate = by_vela(EQUAL, U55, pool)
    assert verifier.proof_of(candidate) is None, "the worker has no reference"
    assert not verifier.proves_binary(candidate, raw_of(candidate.estimate), Limits())
    equality = verifier.equality(candidate)
    assert not equality.reason and equality.proof is not None and equality.proof.verdict == PROVED
