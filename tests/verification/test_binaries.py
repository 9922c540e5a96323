"""Graphs that Vela compiles wrongly are not the answer, and a user whose stock binary is wrong is told where."""

from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest

from eqsat.choice.compiled import Compiled
from eqsat.device.verification import Verdict
from eqsat.ground.worker import Pool
from eqsat.options.decision import Decision, MemoryLimits
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps, loads
from eqsat.vela.defects import violations
from eqsat.vela.regor import RawOutput
from eqsat.verification.checks import Binaries, Checks, find_culprit, first_equal, tell, verify_offers
from tests.fake_oracle import by_vela, compiled
from tests.graphs import U55, U85, compile_graph, residual, transposed_relus
from tests.term import inputs, outputs

QUICK = Options(effort=1)


def largest_of_rows(sliced_first: bool, widened: int = 0) -> TensorGraph:
    """The largest of each of the last two rows. Vela compiles a REDUCE_MAX behind a SLICE wrongly
    (`docs/vela-defects.md`). widened: RESCALEs that four operands of sums of it are, one or four; 0: no sums."""
    (x,) = inputs("x:INT8[6,10]")
    x = x.relu(-100)
    y = x.part(4, 2).reduce("max", 1) if sliced_first else x.reduce("max", 1).part(4, 2)
    if not widened:
        return outputs(y)
    a, b, c, d = [y.rescale("INT32") for _ in range(widened)] * (4 // widened)
    return outputs(y, (a + b).rescale("INT8"), (c - d).rescale("INT8"))


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_a_right_binary_is_said_to_be(target: Target) -> None:
    result = optimize_tosa(dumps(residual()), target, stock=dumps(residual()), options=QUICK)
    assert (result.binary_verified, result.binary_reason, result.stock_binary_verified) == (True, "", True)
    assert result.chosen != "stock" and result.stock_binary_proved is None, "it is proved where it is the answer"
    assert result.binary_proved and result.binary_samples >= 2
    assert "verified in the binary: yes, proved for every input" in result.verdicts()


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_what_vela_compiles_wrongly_is_not_the_answer(target: Target) -> None:
    wrong, right = dumps(largest_of_rows(True)), dumps(largest_of_rows(False))
    result = optimize_tosa(right, target, stock=wrong, options=QUICK)
    assert result.verified and result.binary_verified is True
    assert (result.stock_binary_verified, result.stock_binary_proved) == (False, None)
    said = [w for w in result.warnings if "wrong" in w]
    assert any("stock" in w and "reduce_max" in w and "output 0 differs" in w for w in said), result.warnings


def test_a_candidate_that_is_compiled_wrongly_is_not_the_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """All candidates without a TRANSPOSE, which are the cheapest, count as compiled wrongly."""
    begin = Binaries.begin

    def judged(self: Binaries, c: Compiled, *more: Any) -> Any:
        if c.name != "eqsat" or "transpose" in c.graph.op_counts():
            return begin(self, c, *more)
        future: Future[Verdict] = Future()
        future.set_result(Verdict(False, "planted"))
        return future

    monkeypatch.setattr(Binaries, "begin", judged)
    options = replace(QUICK, remember=False, max_sram="any", max_flash="any")
    found = optimize_tosa(dumps(transposed_relus()), U55, options=options)
    assert any("Vela compiles it wrongly: planted" in w for w in found.warnings)
    assert found.verified and found.binary_verified is True and "transpose" in loads(found.tosa).op_counts()


def test_a_wrong_stock_binary_is_told_where_the_graph_breaks_a_guard_and_is_not_wanted(pool: Pool) -> None:
    # two read the wide value, which is what the guard is about
    right, wrong = largest_of_rows(False, widened=4), largest_of_rows(True, widened=1)
    assert violations(wrong, U55.family) and not violations(right, U55.family)
    explicit, stock = (by_vela(graph, U55, pool, name) for name, graph in (("explicit", right), ("stock", wrong)))
    explicit = compiled("explicit", right, replace(explicit.estimate, cycles=1))
    warnings: list[str] = []
    checks = Checks(right, U55, pool, QUICK, warnings)
    answer = first_equal([explicit, stock], checks, Decision())
    assert answer is not None and answer.best is explicit
    *_, stock_binary = checks.stock(stock)
    assert stock_binary is not None and stock_binary.equal is False
    assert [w for w in warnings if w.startswith("Vela compiles stock's graph wrongly: ")] == warnings != []


def test_where_every_binary_is_wrong_the_user_is_told(pool: Pool) -> None:
    graph = largest_of_rows(True)
    candidate = by_vela(graph, U55, pool, "explicit")
    warnings: list[str] = []
    checks = Checks(graph, U55, pool, QUICK, warnings)
    answer = first_equal([candidate], checks, Decision())
    assert answer is not None and answer.best is candidate and answer.verified and answer.binary.equal is False
    tell(answer, [candidate], checks, Decision())
    assert "the explicit graph is used though Vela compiles it wrongly: output 0 differs" in warnings[-1]


def _candidate(name: str, graph: TensorGraph, cycles: int, pool: Pool) -> Compiled:
    """A compiled graph that counts as taking `cycles`."""
    estimate = replace(compile_graph(graph, U55, pool), cycles=cycles)
    return compiled(name, graph, estimate)


def test_behind_a_candidate_that_is_compiled_wrongly_the_next_one_is_the_answer(pool: Pool) -> None:
    wrong, right = largest_of_rows(True), largest_of_rows(False)
    checks = Checks(right, U55, pool, QUICK, [])
    candidates = [_candidate("eqsat", wrong, 1, pool), _candidate("eqsat", right, 2, pool)]
    answer = first_equal(candidates, checks, Decision())
    assert answer is not None and answer.best is candidates[1] and answer.binary.equal is True


def test_what_is_offered_for_more_memory_was_verified(pool: Pool) -> None:
    wrong, right = largest_of_rows(True), largest_of_rows(False)
    checks = Checks(right, U55, pool, QUICK, [])
    own = _candidate("explicit", right, 9, pool)
    decision = Decision(limits=MemoryLimits(flash=own.figures.flash))
    found = [_candidate("eqsat", graph, cycles, pool) for graph, cycles in ((wrong, 1), (right, 2), (right, 3))]
    raws = [RawOutput(**{**c.estimate.raw, "read_only": bytes(1 << 20)}) for c in found]
    larger = [compiled("eqsat", c.graph, replace(c.estimate, raw=raw)) for c, raw in zip(found, raws, strict=True)]
    answer = first_equal([own, *larger], checks, decision)
    assert answer is not None and answer.best is own
    verify_offers([own, *larger], answer, checks, decision)
    assert [checks.verified(c) for c in larger] == [False, True, None]


def test_the_operator_at_which_a_binary_goes_wrong(pool: Pool) -> None:
    graph = largest_of_rows(True)
    inputs = samples(domains(graph), 6, 0)
    culprit = find_culprit(graph, inputs, U55, pool)
    assert culprit is not None and graph.nodes[culprit].op == "reduce_max"
    assert find_culprit(largest_of_rows(False), inputs, U55, pool) is None


def test_what_is_not_run_says_why(pool: Pool) -> None:
    graph = residual()
    binaries = Checks(graph, U55, pool, replace(QUICK, binary_time_limit=0), []).binaries
    verdict = binaries.verdict(_candidate("eqsat", graph, 1, pool))
    assert verdict.equal is None and "binary_time_limit is 0" in verdict.reason
