"""A proof that is wrong ships nothing that a sample shows, and is not blamed on Vela."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from eqsat.tosa import dumps
from eqsat.verification.checks import Checks
from eqsat.verification.equality import Attempt, Verifier
from tests.fake_oracle import by_vela
from tests.graphs import U55, transposed_relus
from tests.planted import DROPPED
from tests.term import graph

QUICK = Options(effort=1)
BLAMED = "though it was proved equal: the proof is wrong, please report this with the model"


def proves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Verifier, "_attempt", lambda *_, **__: Attempt(True, error_bound=0.0))


def is_blamed_on_the_proof(result: Result) -> bool:
    told = [w for w in result.warnings if w.endswith(BLAMED)]
    assert all(w.startswith("a candidate was not used: it differs from the graph") for w in told)
    assert not any("Vela" in w for w in result.warnings), result.warnings
    return bool(told)


def test_a_wrong_proof_is_caught_on_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    proves_all(monkeypatch)
    result = optimize_tosa(dumps(transposed_relus()), U55, options=replace(QUICK, rules=(DROPPED,)))
    assert (result.chosen, result.verified, result.binary_verified) == ("explicit", True, True)
    assert is_blamed_on_the_proof(result)


def test_a_wrong_proof_of_stocks_graph_is_caught_too(monkeypatch: pytest.MonkeyPatch) -> None:
    proves_all(monkeypatch)
    explicit, stock = (dumps(graph("x:INT8[1,16,16,16]", lambda x, zero=zero: x.relu(zero))) for zero in (2, 3))
    result = optimize_tosa(explicit, U55, stock=stock, options=QUICK)
    assert result.chosen != "stock" and (result.stock_verified, result.stock_proved) == (False, False)


def test_a_remembered_answer_with_a_wrong_proof_is_not_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, pool: Pool
) -> None:
    """Whoever can write the store puts another graph in, with its figures and a right checksum."""
    explicit, wrong = transposed_relus(), transposed_relus(1)

    def answered(place: Path) -> Result:
        return optimize_tosa(dumps(explicit), U55, options=QUICK, store=AnswerStore(place))

    first = answered(tmp_path / "store.sqlite")
    shutil.copy(tmp_path / "store.sqlite", tmp_path / "poisoned.sqlite")
    cycles = by_vela(wrong, U55, pool).figures.cycles
    store = Store(tmp_path / "poisoned.sqlite")
    for name, raw in store.family(ANSWERS, "").items():
        if not (known := KnownAnswer.unpack(raw)).choice:
            store.put(ANSWERS, {name: KnownAnswer("eqsat", "", cycles, known.settings, dumps(wrong)).pack()})
    store.close()
    proves_all(monkeypatch)
    again = answered(tmp_path / "poisoned.sqlite")
    assert is_blamed_on_the_proof(again) and not again.remembered
    assert (again.verified, again.tosa) == (True, first.tosa)


def test_the_binary_of_a_graph_that_differs_itself_is_not_called_wrong(pool: Pool) -> None:
    explicit, wrong = transposed_relus(), transposed_relus(1)
    warnings: list[str] = []
    checks = Checks(explicit, U55, pool, QUICK, warnings)
    candidate = by_vela(wrong, U55, pool)
    verdict = checks.binaries.verdict(candidate)
    assert verdict.equal is None and verdict.reason.startswith("the graph itself differs")
    assert checks.compare(candidate) is None and not checks.miscompiled
    assert len(warnings) == 1 and "Vela" not in warnings[0]
