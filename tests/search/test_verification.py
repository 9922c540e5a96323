"""Nothing that is wrong is the answer, and where nothing can be compared it is never costlier than stock's."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from eqsat.search.decision import Decision, MemoryLimits
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.options import OptionError, Options
from eqsat.search.verification import Compiled, in_order, rank
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import Estimate
from eqsat.vela.roofline import Rates
from eqsat.workers.worker import Worker
from tests.graphs import finish, gather, relu, rescale, transpose

U85 = Target.of("ethos-u85-256")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(time_limit=2, cache=tmp_path / "prices")


def picked(transposes: bool = True) -> TensorGraph:
    """Rows of x at positions that are an input; around it relus, between transposes that are of no use."""
    g = TensorGraph()
    y = g.add_input("x", (1, 8, 16), "INT8")
    y = transpose(g, relu(g, transpose(g, y, 0, 2, 1)), 0, 2, 1) if transposes else relu(g, y)
    return finish(g, relu(g, gather(g, y, g.add_input("index", (1, 4), "INT32")), -50))


def overflowing(transposes: bool = True) -> TensorGraph:
    """As `picked`, beside a sum that overflows whatever the inputs are."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 16), "INT8")
    y = transpose(g, relu(g, transpose(g, x, 0, 2, 1)), 0, 2, 1) if transposes else relu(g, x)
    large = g.add_const(np.full((1, 8, 16), 2**31 - 1), "INT32")
    wide = g.add("add", [g.add("cast", [x], dtype="INT32"), large])
    return finish(g, relu(g, y, -50), g.add("add", [wide, large]))


def test_positions_that_are_an_input_lose_no_gains(options: Options, worker: Worker) -> None:
    """Drawn out of range, the reference model dies, and the costlier explicit graph was the answer."""
    result = optimize_tosa(dumps(picked()), U85, stock=dumps(picked()), options=options)
    assert (result.chosen, result.verified, result.warnings) == ("eqsat", True, [])
    assert "transpose" not in loads(result.tosa).op_counts() and result.cycles < result.stock_cycles
    assert compare(picked(), loads(result.tosa), worker, seed=5).equal


def test_where_nothing_can_be_compared_stock_is_the_answer(options: Options) -> None:
    stock = dumps(overflowing(transposes=False))
    result = optimize_tosa(dumps(overflowing()), U85, stock=stock, options=options)
    assert (result.chosen, result.verified, result.stock_verified, result.tosa) == ("stock", False, None, stock)
    assert result.cycles == result.stock_cycles < result.explicit_cycles
    assert "stock's graph is the result, which could not be verified" in result.warnings[-1]


def test_where_nothing_can_be_compared_nothing_else_replaces_the_reference(options: Options) -> None:
    explicit = dumps(overflowing())
    result = optimize_tosa(explicit, U85, options=options)
    assert (result.chosen, result.verified, result.tosa) == ("explicit", True, explicit)
    assert all("it could not be verified" in w for w in result.warnings) and result.warnings


@pytest.mark.parametrize("trials", [0, -1])
def test_at_least_one_trial(trials: int, options: Options) -> None:
    with pytest.raises(OptionError, match="at least 1"):
        replace(options, trials=trials)


def compiled(cycles: int, sram: int, tolerant: bool) -> Compiled:
    estimate = Estimate(cycles, (), {"Sram": {"peak": sram, "read": 0, "written": 0}}, Rates(128, 1.0, 8.0), (16, 16))
    return Compiled("eqsat", finish(TensorGraph()), b"", estimate, tolerant)


def test_of_equal_cycles_the_exact_graph_wins_and_then_the_one_with_less_sram() -> None:
    tolerant, large, small, slow = (compiled(*x) for x in ((5, 1, True), (5, 3, False), (5, 2, False), (6, 1, False)))
    ranked = sorted([slow, tolerant, large, small], key=lambda c: rank(c, Decision()))
    assert ranked == [small, large, tolerant, slow]
    assert min(ranked, key=lambda c: rank(c, Decision("sram"))) is slow


def test_stock_that_breaks_a_guard_is_not_preferred_for_its_memory() -> None:
    g = TensorGraph()
    wide = rescale(g, g.add_input("x", (1, 4, 4, 8), "INT8"), "INT32")
    shared = finish(g, *(rescale(g, g.add("add", [wide, wide]), "INT8") for _ in range(2)))
    decision = Decision(limits=MemoryLimits(sram=10))
    stock, fast, slow = replace(compiled(7, 5, False), name="stock"), compiled(6, 20, False), compiled(8, 5, False)
    assert in_order([slow, stock, fast], decision) == [stock, slow, fast]
    stock = replace(stock, graph=shared)
    assert in_order([fast, stock], decision) == [fast, stock]  # both are wanted: less memory, and no wrong results
    assert in_order([slow, stock, fast], decision)[0] is stock  # as by cycles alone, with a warning
    assert in_order([fast, stock], decision, lambda c: c is stock) == [stock, fast]  # its binary was run, and is right
