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
from tests.graphs import channel_shuffle, conv, finish, gather, relu, rescale, residual


def with_bias(change: int, name: str = "x") -> TensorGraph:
    """A conv whose first weight is changed."""
    g = TensorGraph()
    finish(g, conv(g, g.add_input(name, (1, 4, 4, 4), "INT8"), 4))
    (n,) = (n for n, node in enumerate(g.nodes) if node.op == "const" and node.dtype == "INT8")
    weights = g.nodes[n].attr("value").data.copy()
    weights.flat[0] += change
    h = TensorGraph()
    x = h.add_input(name, (1, 4, 4, 4), "INT8")
    operands = [x, h.add_const(weights, "INT8"), h.add_const(g.nodes[n + 1].attr("value").data, "INT32")]
    y = h.add_with("conv2d", operands, g.nodes[n + 2].attrs)
    return finish(h, h.add_with("rescale", [y], g.nodes[n + 3].attrs))


def test_compare_finds_a_changed_weight(worker: Worker) -> None:
    assert compare(with_bias(0), with_bias(0), worker).equal
    outcome = compare(with_bias(0), with_bias(-1), worker)
    assert not outcome.equal and outcome.max_difference >= 1 and "output 0" in outcome.reason


def at_the_edge(high: int) -> TensorGraph:
    """Two outputs; the second differs between edges only where x is that large."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 2, 3), "INT8")
    return finish(
        g,
        relu(g, x),
        g.add_with(
            "minimum",
            [g.add("cast", [x], dtype="INT32"), g.add_const(np.full((1, 1, 1, 1), high), "INT32")],
            makers.extremum(),
        ),
    )


def test_compare_tries_the_extremes(worker: Worker) -> None:
    outcome = compare(at_the_edge(127), at_the_edge(126), worker, trials=1)
    assert not outcome.equal and outcome.max_difference == 1 and "output 1" in outcome.reason


def test_compare_wants_the_same_signature_and_names(worker: Worker) -> None:
    assert "signatures" in compare(residual(), channel_shuffle(), worker).reason
    assert "inputs" in compare(with_bias(0), with_bias(0, "other"), worker).reason


def wide_conv(bias: int) -> TensorGraph:
    """An INT16 convolution whose INT48 sums are the output, which the reference model does not show."""
    g = TensorGraph()
    x = g.add_input("x", (1, 2, 2, 1), "INT16")
    w, b = g.add_const(np.ones((1, 1, 1, 1)), "INT8"), g.add_const(np.array([bias]), "INT48")
    return finish(g, g.add_with("conv2d", [x, w, b], makers.conv("INT16")))


def test_outputs_that_the_model_does_not_show_are_compared_in_numpy(worker: Worker) -> None:
    assert compare(wide_conv(0), wide_conv(0), worker).equal
    outcome = compare(wide_conv(0), wide_conv(1), worker)
    assert not outcome.equal and outcome.max_difference == 1


def test_an_output_that_nothing_shows_is_never_equal(worker: Worker) -> None:
    """INT48 after an operator that numpy does not compute either."""

    def graph() -> TensorGraph:
        g = TensorGraph()
        x = g.add_input("x", (1, 8, 16), "INT16")
        t = Type((1, 4, 16), "INT16")
        opaque = {"tosa": "GATHER", "fields": (), "shape_operands": (None, None), "results": (t,)}
        rows = g.add_const(np.array([[3, 0, 5, 5]]), "INT32")
        y = g.add("opaque", [x, rows], **opaque, shape=t.shape, dtype=t.dtype)
        w, b = g.add_const(np.ones((1, 1, 1, 16)), "INT8"), g.add_const(np.array([0]), "INT48")
        y = g.add("reshape", [y], shape=(1, 1, 4, 16))
        return finish(g, g.add_with("conv2d", [y, w, b], makers.conv("INT16")))

    with pytest.raises(Unjudged, match="INT48"):
        compare(graph(), graph(), worker)


def test_inputs_that_cannot_be_made_are_an_error(worker: Worker) -> None:
    g = TensorGraph()
    finish(g, g.add("identity", [g.add_input("x", (2,), "BF16")]))
    with pytest.raises(Unjudged, match="BF16"):
        compare(g, g, worker)


# ---- samples that the reference itself cannot be run on -----------------------------------------


def doubled(low: int = -100) -> TensorGraph:
    """x + x in INT32, which overflows for large x and is UNPREDICTABLE then; an input of INT8 beside it."""
    g = TensorGraph()
    x, y = g.add_input("x", (1, 4), "INT32"), g.add_input("y", (1, 4), "INT8")
    scaled = rescale(g, x, "INT32", multiplier=(1 << 30,), shift=(20,))
    return finish(g, g.add("add", [scaled, scaled]), relu(g, y, low))


def test_samples_that_the_reference_cannot_run_say_nothing(worker: Worker) -> None:
    reference = Reference(doubled(), worker)
    inputs, _ = reference.first()
    assert inputs and all(np.abs(xs[0]).max() < 2**20 for xs in inputs)
    assert reference.compare(doubled()).equal
    assert not reference.compare(doubled(-101)).equal


def overflowing(least: int) -> TensorGraph:
    """A convolution, at least so large: the model does not mind that its sum overflows."""
    g = TensorGraph()
    x = g.add_input("x", (1, 1, 2, 1), "INT8")
    w, b = g.add_const(np.full((1, 1, 1, 1), 127), "INT8"), g.add_const(np.full(1, (1 << 31) - 1), "INT32")
    total = g.add_with("conv2d", [x, w, b], makers.conv("INT8"))
    limit = g.add_const(np.full((1, 1, 1, 1), least), "INT32")
    return finish(g, g.add_with("maximum", [total, limit], makers.extremum()))


def test_where_graphs_may_differ_they_are_not_compared(worker: Worker) -> None:
    """Only where it overflows is the sum below 0."""
    reference = Reference(overflowing(0), worker)
    found = reference.compare(overflowing(-9))
    assert found.equal and 0 < found.judged < len(reference.first()[0]) == 96
    assert not reference.compare(overflowing((1 << 31) - 200)).equal


def test_nothing_to_compare_on_is_never_equal(worker: Worker) -> None:
    """The sum overflows for any input."""
    g = TensorGraph()
    large = g.add_const(np.full((1, 4), 2**31 - 1), "INT32")
    x = g.add("cast", [g.add_input("x", (1, 4), "INT8")], dtype="INT32")
    finish(g, g.add("add", [g.add("add", [large, large]), x]))
    with pytest.raises(Unjudged, match="none of"):
        compare(g, g, worker)


def test_a_sample_on_which_the_model_dies_takes_no_other_along(pool: Pool) -> None:
    g = TensorGraph()
    x, index = g.add_input("x", (1, 8, 16), "INT8"), g.add_input("index", (1, 4), "INT32")
    finish(g, gather(g, x, index))
    data = np.arange(128, dtype=np.int8).reshape(1, 8, 16)
    answers = run_samples(dumps(g), [[data, np.full((1, 4), k, np.int32)] for k in (1, 1 << 20, 8, 3)], pool)
    assert [isinstance(a, WorkerError) for a in answers] == [False, True, True, False]
    assert all((answers[k][0] == data[:, at]).all() for k, at in ((0, 1), (3, 3)))


def test_positions_are_drawn_from_what_they_point_into(worker: Worker) -> None:
    def graph(start: int) -> TensorGraph:
        g = TensorGraph()
        x, index = g.add_input("x", (1, 8, 16), "INT8"), g.add_input("index", (4, 1), "INT32")
        return finish(g, relu(g, gather(g, x, g.add("reshape", [index], shape=(1, 4))), start))

    reference = Reference(graph(-100), worker)
    inputs, _ = reference.first()
    assert len(inputs) >= 6 and {int(i) for xs in inputs for i in xs[1].flat} == set(range(8))
    assert reference.compare(graph(-100)).equal and not reference.compare(graph(-99)).equal


# ---- inner values -------------------------------------------------------------------------------
