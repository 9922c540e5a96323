"""Nothing that is wrong is the answer, and where nothing can be compared it is never costlier than stock's."""

from __future__ import annotations

import os
import re
import shutil
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqsat.egraph.rule import Rule
from eqsat.ground.worker import Pool, Worker
from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.recall import AnswerStore, KnownAnswer
from eqsat.store.store import ANSWERS, Store
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from eqsat.verification import equality
from eqsat.verification.checks import Checks
from eqsat.verification.equality import Attempt, Verifier
from tests.fake_oracle import by_vela
from tests.graphs import U55, U85, transposed_relus
from tests.planted import ABSORBED, DROPPED, NOT_GREATER, UNCLAMPED
from tests.proof.near_misses import pairs
from tests.term import graph, inputs, outputs

QUICK = Options(effort=1)
BLAMED = "though it was proved equal: the proof is wrong, please report this with the model"


def picked() -> TensorGraph:
    """Rows of x at positions that are an input; around it relus, between transposes that are of no use."""
    y, index = inputs("x:INT8[1,8,16] index:INT32[1,4]")
    y = y.transpose(0, 2, 1).relu().transpose(0, 2, 1)
    return outputs(y("gather", index).relu(-50))


def overflowing(transposes: bool = True) -> TensorGraph:
    """As `picked`, beside a sum that overflows whatever the inputs are."""
    (x,) = inputs("x:INT8[1,8,16]")
    y = x.transpose(0, 2, 1).relu().transpose(0, 2, 1) if transposes else x.relu()
    large = x.const(np.full((1, 8, 16), 2**31 - 1), "INT32")
    return outputs(y.relu(-50), x.wide() + large + large)


def test_positions_that_are_an_input_lose_no_gains(worker: Worker) -> None:
    """Drawn out of range, the reference model dies, and the costlier explicit graph was the answer."""
    result = optimize_tosa(dumps(picked()), U85, stock=dumps(picked()), options=QUICK)
    assert (result.chosen, result.verified, result.warnings) == ("eqsat", True, [])
    assert "transpose" not in loads(result.tosa).op_counts() and result.calibrated < result.stock_calibrated
    assert result.opaque == {} and result.coverage == 1
    assert (result.proved, result.stock_proved, result.undecided) == (True, True, [])
    assert 0 < result.error_bound < 2**-60 and result.record()["proved"] is True
    assert compare(picked(), loads(result.tosa), worker, seed=5).equal


def between_transposes(op: str, dtype: str, **attrs: object) -> TensorGraph:
    """An operator on two inputs, as NHWC, of which one and the result are seen as NCHW and in blocks."""
    x, y = inputs(f"x:{dtype}[1,16,8,8] y:{dtype}[1,64,16]")
    z = x.nhwc().reshape(1, 64, 16)(op, y, **attrs).transpose(0, 2, 1)
    return outputs(z.reshape(1, 4, 4, 8, 8).transpose(0, 3, 1, 2, 4))


@pytest.mark.parametrize(
    "given",
    [
        between_transposes("arithmetic_right_shift", "INT32", round=False),
        pytest.param(between_transposes("logical_right_shift", "INT16"), marks=pytest.mark.slow),
        pytest.param(between_transposes("intdiv", "INT32"), marks=pytest.mark.slow),
    ],
    ids=lambda g: next(iter(g.op_counts())),
)
def test_operands_that_are_an_input_lose_no_gains(given: TensorGraph) -> None:
    """Amounts to shift by beyond the bits, and divisors of 0, left nothing to compare on."""
    result = optimize_tosa(dumps(given), U85, options=QUICK)
    assert (result.chosen, result.verified) == ("eqsat", True)
    assert result.calibrated < result.explicit_calibrated
    # a logical shift whose result has the sign bit is not run
    unjudged = "the functional model cannot run it" in result.binary_reason
    assert result.binary_verified or unjudged and "logical_right_shift" in given.op_counts(), result.binary_reason
    assert len(result.warnings) == (not result.binary_verified)


@pytest.mark.parametrize(
    ("start", "rule"), [("chosen(~(", NOT_GREATER), ("x.conv(WIDE).fits(BITS).clamp", UNCLAMPED)], ids=["code", "sum"]
)
def test_a_wrong_rule_and_a_wrong_stock_graph_that_few_inputs_show_are_refused(start: str, rule: Rule) -> None:
    """Wrong on one code of INT16, or for sums near their extremes alone: both were verified."""
    given, wrong = map(dumps, next(p for p in pairs() if p.one.startswith(start)).graphs())
    result = optimize_tosa(given, U85, options=replace(QUICK, rules=(rule,)))
    assert result.chosen == "explicit" and any("it differs from the graph" in w for w in result.warnings)
    result = optimize_tosa(given, U85, stock=wrong, options=QUICK)
    assert result.chosen != "stock" and result.stock_verified is not True and result.proved
    (said,) = (w for w in result.warnings if "stock" in w)
    assert "computes something else" in said


def test_what_is_not_proved_is_not_the_answer() -> None:
    """Two different products of two inputs of INT16: no proof knows a function of two such values."""
    x, y = inputs("x:INT16[1,4,4,4] y:INT16[1,4,4,4]")
    p, q = x * y, y * y
    g = outputs(p.max(q).min(p))
    exact = optimize_tosa(dumps(g), U85, options=replace(QUICK, rules=(ABSORBED,)))
    assert (exact.chosen, exact.proved, exact.error_bound, exact.stock_proved) == ("explicit", True, 0.0, None)
    assert "is not proved to for every input (mul" in exact.warnings[-1]


def test_where_nothing_can_be_compared_stock_is_the_answer() -> None:
    stock = dumps(overflowing(transposes=False))
    result = optimize_tosa(dumps(overflowing()), U85, stock=stock, options=QUICK)
    assert (result.chosen, result.verified, result.stock_verified, result.tosa) == ("stock", False, None, stock)
    assert result.calibrated == result.stock_calibrated < result.explicit_calibrated
    assert "stock's graph is the result, which could not be verified" in result.warnings[-1]


def test_where_nothing_can_be_compared_nothing_else_replaces_the_reference() -> None:
    explicit = dumps(overflowing())
    result = optimize_tosa(explicit, U85, options=QUICK)
    assert (result.chosen, result.verified, result.tosa) == ("explicit", True, explicit)
    *others, binary = result.warnings
    assert others and all("it could not be verified" in w for w in others)
    assert "the binary of the explicit graph could not be judged" in binary


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
    assert verifier.prove_binary(right, right.estimate.raw, 60).proved
    assert verifier.prove_binary(other, other.estimate.raw, 60).proved
    wrong = verifier.prove_binary(right, other.estimate.raw, 60)
    assert not wrong.proved and wrong.undecided


ENDED = (1e-9, equality._PROOF_MIB, "the time for a proof ended there$"), (60, 1, "memory limit")


@pytest.mark.parametrize(("seconds", "mib", "why"), ENDED, ids=["time", "memory"])
def test_a_proof_that_takes_too_much_says_so(
    seconds: float, mib: int, why: str, verifier: Verifier, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(equality, "_PROOF_MIB", mib)
    candidate = by_vela(EQUAL, U55, pool)
    found = verifier.prove_binary(candidate, candidate.estimate.raw, seconds)
    (told,) = found.undecided
    assert not found.proved and re.search(why, told)


def test_a_graph_is_proved_though_the_worker_is_killed(verifier: Verifier, pool: Pool) -> None:
    candidate, other = (by_vela(g, U55, pool) for g in (EQUAL, REFERENCE))
    assert verifier.begin(candidate).result().proved
    process = verifier._worker._worker._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    assert verifier.begin(other).result().proved


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
