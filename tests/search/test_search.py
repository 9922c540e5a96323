"""Compilations that are begun before they are asked for."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search import search as module
from eqsat.search.search import Search
from eqsat.target import Target
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import widening

U85 = Target.of("ethos-u85-256")


def test_what_was_begun_is_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Mock(side_effect=compile_tosa)
    monkeypatch.setattr(module, "compile_tosa", counted)
    buffer, settings = dumps(widening()), ("--optimise=Size",)
    with Pool(2) as pool:
        search = Search(U85, pool, Options())
        search.begin(buffer)
        search.begin(buffer)
        search.begin(buffer, settings)
        found = [search.compiled(buffer), search.compiled(buffer, settings)]
        expected = [compile_tosa(buffer, U85.with_flags(s), pool) for s in ((), settings)]
    assert counted.call_count == 2
    assert [f and f.cycles for f in found] == [e.cycles for e in expected]
    assert [f and f.sram_peak for f in found] == [e.sram_peak for e in expected]


def test_a_failure_is_told_only_to_those_who_ask() -> None:
    with Pool(1) as pool:
        search = Search(U85, pool, Options())
        search.begin(b"none")
        assert search.compiled(dumps(widening())) is not None and not search.warnings
        assert search.compiled(b"none") is None and len(search.warnings) == 1
