"""The reference model through a worker, and what a comparison on it finds, leaves out and never claims."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type
from eqsat.tosa import dumps
from eqsat.tosa.reference import Reference, Unjudged, compare, run_samples
from tests.graphs import channel_shuffle, residual
from tests.term import graph, inputs, outputs


def with_weight(change: int, name: str = "x") -> TensorGraph:
    """A conv whose first weight is changed."""
    weights = np.random.default_rng(0).integers(-100, 100, (4, 1, 1, 4))
    weights.flat[0] += change
    return graph(f"{name}:INT8[1,4,4,4]", lambda x: x.conv(weights, np.arange(4)).rescale("INT8", shift=38, out_zp=-5))


def test_compare_finds_a_changed_weight(worker: Worker) -> None:
    assert compare(with_weight(0), with_weight(0), worker).equal
    outcome = compare(with_weight(0), with_weight(-1), worker)
    assert not outcome.equal and outcome.max_difference >= 1 and "output 0" in outcome.reason


def at_the_edge(high: int) -> TensorGraph:
    """Two outputs; the second differs between edges only where x is that large."""
    (x,) = inputs("x:INT8[1,2,2,3]")
    return outputs(x.relu(), x.wide().min(high))


def test_compare_tries_the_extremes(worker: Worker) -> None:
    outcome = compare(at_the_edge(127), at_the_edge(126), worker, trials=1)
    assert not outcome.equal and outcome.max_difference == 1 and "output 1" in outcome.reason


def test_compare_wants_the_same_signature_and_names(worker: Worker) -> None:
    assert "signatures" in compare(residual(), channel_shuffle(), worker).reason
    assert "inputs" in compare(with_weight(0), with_weight(0, "other"), worker).reason


def wide_conv(bias: int) -> TensorGraph:
    """An INT16 convolution whose INT48 sums are the output, which the reference model does not show."""
    (x,) = inputs("x:INT16[1,2,2,1]")
    return outputs(x.made("conv2d", makers.conv("INT16"), x.const([[[[1]]]], "INT8"), x.const([bias], "INT48")))


def test_outputs_that_the_model_does_not_show_are_compared_in_numpy(worker: Worker) -> None:
    assert compare(wide_conv(0), wide_conv(0), worker).equal
    outcome = compare(wide_conv(0), wide_conv(1), worker)
    assert not outcome.equal and outcome.max_difference == 1


def test_an_output_that_nothing_shows_is_never_equal(worker: Worker) -> None:
    """INT48 after an operator that numpy does not compute either."""
    (x,) = inputs("x:INT16[1,8,16]")
    rows = x.opaque("GATHER", [Type((1, 4, 16), "INT16")], x.const([[3, 0, 5, 5]], "INT32"))
    w, b = x.const(np.ones((1, 1, 1, 16)), "INT8"), x.const([0], "INT48")
    g = outputs(rows.reshape(1, 1, 4, 16).made("conv2d", makers.conv("INT16"), w, b))
    with pytest.raises(Unjudged, match="INT48"):
        compare(g, g, worker)


def test_inputs_that_cannot_be_made_are_an_error(worker: Worker) -> None:
    g = graph("x:BF16[2]", lambda x: x("identity"))
    with pytest.raises(Unjudged, match="BF16"):
        compare(g, g, worker)


# ---- samples that the reference itself cannot be run on -----------------------------------------


def doubled(low: int = -100) -> TensorGraph:
    """x + x in INT32, which overflows for large x and is UNPREDICTABLE then; an input of INT8 beside it."""
    x, y = inputs("x:INT32[1,4] y:INT8[1,4]")
    scaled = x.rescale("INT32", shift=20)
    return outputs(scaled + scaled, y.relu(low))


def test_samples_that_the_reference_cannot_run_say_nothing(worker: Worker) -> None:
    reference = Reference(doubled(), worker)
    inputs, _ = reference.first()
    assert inputs and all(np.abs(xs[0]).max() < 2**20 for xs in inputs)
    assert reference.compare(doubled()).equal
    assert not reference.compare(doubled(-101)).equal


def overflowing(least: int) -> TensorGraph:
    """A convolution, at least so large: the model does not mind that its sum overflows."""
    (x,) = inputs("x:INT8[1,1,2,1]")
    return outputs(x.conv([[[[127]]]], (1 << 31) - 1).max(least))


def test_where_graphs_may_differ_they_are_not_compared(worker: Worker) -> None:
    """Only where it overflows is the sum below 0."""
    reference = Reference(overflowing(0), worker)
    found = reference.compare(overflowing(-9))
    assert found.equal and 0 < found.judged < len(reference.first()[0]) == 96
    assert not reference.compare(overflowing((1 << 31) - 200)).equal


def test_nothing_to_compare_on_is_never_equal(worker: Worker) -> None:
    """The sum overflows for any input."""
    (x,) = inputs("x:INT8[1,4]")
    large = x.const(np.full((1, 4), 2**31 - 1), "INT32")
    g = outputs(large + large + x.wide())
    with pytest.raises(Unjudged, match="none of"):
        compare(g, g, worker)


def test_a_sample_on_which_the_model_dies_takes_no_other_along(pool: Pool) -> None:
    g = graph("x:INT8[1,8,16] index:INT32[1,4]", lambda x, index: x("gather", index))
    data = np.arange(128, dtype=np.int8).reshape(1, 8, 16)
    answers = run_samples(dumps(g), [[data, np.full((1, 4), k, np.int32)] for k in (1, 1 << 20, 8, 3)], pool)
    assert [isinstance(a, WorkerError) for a in answers] == [False, True, True, False]
    assert all((answers[k][0] == data[:, at]).all() for k, at in ((0, 1), (3, 3)))


def test_positions_are_drawn_from_what_they_point_into(worker: Worker) -> None:
    def picked(start: int) -> TensorGraph:
        x, index = inputs("x:INT8[1,8,16] index:INT32[4,1]")
        return outputs(x("gather", index.reshape(1, 4)).relu(start))

    reference = Reference(picked(-100), worker)
    samples, _ = reference.first()
    assert len(samples) >= 6 and {int(i) for xs in samples for i in xs[1].flat} == set(range(8))
    assert reference.compare(picked(-100)).equal and not reference.compare(picked(-99)).equal
