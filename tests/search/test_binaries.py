"""Graphs that Vela compiles wrongly are not the answer, and a user whose stock binary is wrong is told where."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.search.binaries import Binaries
from eqsat.search.decision import Decision
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.options import Options
from eqsat.search.verification import Checks, Compiled, first_equal
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_graph
from eqsat.vela.guards import violations
from eqsat.workers.worker import Pool
from tests.graphs import finish, relu, rescale, residual

U55, U85 = Target.of("ethos-u55-128"), Target.of("ethos-u85-256")


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(time_limit=2, cache=tmp_path / "prices")


def largest_of_rows(sliced_first: bool) -> TensorGraph:
    """The largest of each of the last two rows. Vela compiles a REDUCE_MAX behind a SLICE wrongly (`docs/vela-defects.md`)."""
    g = TensorGraph()
    x = relu(g, g.add_input("x", (6, 10), "INT8"), -100)
    maximum = makers.extremum(1)
    if sliced_first:
        return finish(g, g.add_with("reduce_max", [g.add("slice", (x,), start=(4, 0), size=(2, 10))], maximum))
    return finish(g, g.add("slice", (g.add_with("reduce_max", [x], maximum),), start=(4, 0), size=(2, 1)))


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_a_right_binary_is_said_to_be(target: Target, options: Options) -> None:
    result = optimize_tosa(dumps(residual()), target, stock=dumps(residual()), options=options)
    assert (result.binary_verified, result.binary_reason, result.stock_binary_verified) == (True, "", True)


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
def test_what_vela_compiles_wrongly_is_not_the_answer(target: Target, options: Options) -> None:
    wrong, right = dumps(largest_of_rows(True)), dumps(largest_of_rows(False))
    result = optimize_tosa(right, target, stock=wrong, options=options)
    assert result.verified and result.binary_verified is True
    assert result.stock_binary_verified is False
    said = [w for w in result.warnings if "wrong" in w]
    assert any("stock" in w and "reduce_max" in w and "output 0 differs" in w for w in said), result.warnings


def test_a_wrong_stock_binary_is_told_where_the_graph_breaks_a_guard_and_is_not_wanted(
    options: Options, pool: Pool
) -> None:
    right, wrong = largest_of_rows(False), largest_of_rows(True)
    wide = rescale(wrong, wrong.outputs[0], "INT32")  # two read it, which is what the guard is about
    sums = [rescale(wrong, wrong.add(op, [wide, wide]), "INT8") for op in ("add", "sub")]
    wrong = finish(wrong, *wrong.outputs, *sums)
    right_wide = [rescale(right, right.outputs[0], "INT32") for _ in range(4)]
    right = finish(
        right,
        *right.outputs,
        *(
            rescale(right, right.add(op, pair), "INT8")
            for op, pair in (("add", right_wide[:2]), ("sub", right_wide[2:]))
        ),
    )
    assert violations(wrong) and not violations(right)
    explicit, stock = (
        Compiled(name, graph, dumps(graph), compile_graph(graph, U55, pool))
        for name, graph in (("explicit", right), ("stock", wrong))
    )
    explicit = replace(explicit, estimate=replace(explicit.estimate, cycles=1))
    warnings: list[str] = []
    answer = first_equal([explicit, stock], Checks(right, U55, pool, options), Decision(), warnings)
    assert answer is not None and answer.best is explicit
    assert answer.stock_binary is not None and answer.stock_binary.equal is False
    assert [w for w in warnings if w.startswith("Vela compiles stock's graph wrongly: ")] == warnings != []


def test_where_every_binary_is_wrong_the_user_is_told(options: Options, pool: Pool) -> None:
    graph = largest_of_rows(True)
    candidate = Compiled("explicit", graph, dumps(graph), compile_graph(graph, U55, pool))
    warnings: list[str] = []
    answer = first_equal([candidate], Checks(graph, U55, pool, options), Decision(), warnings)
    assert answer is not None and answer.best is candidate and answer.verified and answer.binary.equal is False
    assert "the explicit graph is used though Vela compiles it wrongly: output 0 differs" in warnings[-1]


def test_the_operator_at_which_a_binary_goes_wrong(pool: Pool) -> None:
    graph = largest_of_rows(True)
    inputs = samples(domains(graph), 6, 0)
    assert Binaries(U55, pool, 60).culprit(graph, inputs).startswith("reduce_max n")
    assert Binaries(U55, pool, 60).culprit(largest_of_rows(False), inputs) == ""


@pytest.mark.parametrize(
    "target, seconds, reason",
    [
        (U55, 0, "binary_time_limit is 0"),
        (U55, 1e-9, "no time was left|took over"),
    ],
)
def test_what_is_not_run_says_why(target: Target, seconds: float, reason: str, pool: Pool) -> None:
    graph = residual()
    binaries = Binaries(target, pool, seconds)
    inputs = samples(domains(graph), 2, 0)
    binaries.verdict(graph, dumps(graph), inputs)
    found = binaries.verdict(graph, dumps(graph), inputs)
    assert found.equal is None and re.search(reason, found.reason)
