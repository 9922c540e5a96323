"""What is compiled is compiled once, whoever asks for it."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from cost_models.command_stream import price
from eqsat.choice.compiled import Candidate
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.search import oracle as module
from eqsat.search.oracle import Oracle
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import widening

U85 = Target.of("ethos-u85-256")


def test_what_was_begun_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=compile_tosa)
    monkeypatch.setattr(module, "compile_tosa", counted)
    graph, settings = widening(), ("--optimise=Size",)
    plain, small = (Candidate("eqsat", graph, dumps(graph), settings=s) for s in ((), settings))
    with Pool(2) as pool:
        oracle = Oracle.of(U85, pool)
        for candidate in (plain, plain, small):
            oracle.begin(candidate)
        found = [oracle.compiled(c) for c in (plain, small)]
        expected = [compile_tosa(c.tosa, U85.with_flags(c.settings), pool) for c in (plain, small)]
    assert counted.call_count == 2 and oracle.ahead == 2
    assert [f.estimate.cycles for f in found] == [e.cycles for e in expected]
    assert [f.figures[:2] for f in found] == [(price(e.stream, U85).cycles, e.sram_peak) for e in expected]
    for f in found:
        assert sum(r.priced for r in f.estimate.rows) == pytest.approx(f.figures.cycles, rel=0.02)


def test_a_refusal_is_told_only_to_those_who_ask() -> None:
    graph = widening()
    with Pool(1) as pool:
        oracle = Oracle.of(U85, pool)
        oracle.begin(Candidate("eqsat", graph, b"none"))
        assert oracle.compiled(Candidate("eqsat", graph, dumps(graph))).figures.cycles
        with pytest.raises(WorkerError):
            oracle.compiled(Candidate("eqsat", graph, b"none"))
