"""Nothing that is wrong is the answer, and where nothing can be compared it is never costlier than stock's."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat.egraph.rule import Rule
from eqsat.ground.worker import Worker
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from tests.graphs import U85
from tests.planted import ABSORBED, NOT_GREATER, UNCLAMPED
from tests.proof.near_misses import pairs
from tests.term import inputs, outputs


@pytest.fixture
def options() -> Options:
    return Options(effort=1)


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


def test_positions_that_are_an_input_lose_no_gains(options: Options, worker: Worker) -> None:
    """Drawn out of range, the reference model dies, and the costlier explicit graph was the answer."""
    result = optimize_tosa(dumps(picked()), U85, stock=dumps(picked()), options=options)
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
def test_operands_that_are_an_input_lose_no_gains(given: TensorGraph, options: Options) -> None:
    """Amounts to shift by beyond the bits, and divisors of 0, left nothing to compare on."""
    result = optimize_tosa(dumps(given), U85, options=options)
    assert (result.chosen, result.verified) == ("eqsat", True)
    assert result.calibrated < result.explicit_calibrated
    # a logical shift whose result has the sign bit is not run
    unjudged = "the functional model cannot run it" in result.binary_reason
    assert result.binary_verified or unjudged and "logical_right_shift" in given.op_counts(), result.binary_reason
    assert len(result.warnings) == (not result.binary_verified)


@pytest.mark.parametrize(
    ("start", "rule"), [("chosen(~(", NOT_GREATER), ("x.conv(WIDE).fits(BITS).clamp", UNCLAMPED)], ids=["code", "sum"]
)
def test_a_wrong_rule_and_a_wrong_stock_graph_that_few_inputs_show_are_refused(
    start: str, rule: Rule, options: Options
) -> None:
    """Wrong on one code of INT16, or for sums near their extremes alone: both were verified."""
    given, wrong = map(dumps, next(p for p in pairs() if p.one.startswith(start)).graphs())
    result = optimize_tosa(given, U85, options=replace(options, rules=(rule,)))
    assert result.chosen == "explicit" and any("it differs from the graph" in w for w in result.warnings)
    result = optimize_tosa(given, U85, stock=wrong, options=options)
    assert result.chosen != "stock" and result.stock_verified is not True and result.proved
    (said,) = (w for w in result.warnings if "stock" in w)
    assert "computes something else" in said


def test_what_is_not_proved_is_not_the_answer(options: Options) -> None:
    """Two different products of two inputs of INT16: no proof knows a function of two such values."""
    x, y = inputs("x:INT16[1,4,4,4] y:INT16[1,4,4,4]")
    p, q = x * y, y * y
    g = outputs(p.max(q).min(p))
    options = replace(options, rules=(ABSORBED,))
    exact = optimize_tosa(dumps(g), U85, options=options)
    assert (exact.chosen, exact.proved, exact.error_bound, exact.stock_proved) == ("explicit", True, 0.0, None)
    assert "is not proved to for every input (mul" in exact.warnings[-1]


def test_where_nothing_can_be_compared_stock_is_the_answer(options: Options) -> None:
    stock = dumps(overflowing(transposes=False))
    result = optimize_tosa(dumps(overflowing()), U85, stock=stock, options=options)
    assert (result.chosen, result.verified, result.stock_verified, result.tosa) == ("stock", False, None, stock)
    assert result.calibrated == result.stock_calibrated < result.explicit_calibrated
    assert "stock's graph is the result, which could not be verified" in result.warnings[-1]


def test_where_nothing_can_be_compared_nothing_else_replaces_the_reference(options: Options) -> None:
    explicit = dumps(overflowing())
    result = optimize_tosa(explicit, U85, options=options)
    assert (result.chosen, result.verified, result.tosa) == ("explicit", True, explicit)
    *others, binary = result.warnings
    assert others and all("it could not be verified" in w for w in others)
    assert "the binary of the explicit graph could not be judged" in binary
