"""Every input stays in the binary that Vela makes, with the shape that it had."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import add, finish, relu, transpose
from tests.vela.binary import input_shapes, six

SHAPE = (1, 16, 12, 20)


@pytest.fixture
def options() -> Options:
    return Options(effort=1)


def useless_transposes(g: TensorGraph) -> int:
    """Work on an input x whose transposes cost cycles and can go."""
    y = relu(g, transpose(g, g.add_input("x", SHAPE, "INT8"), 0, 2, 3, 1), -50)
    return transpose(g, add(g, y, relu(g, y, -9)), 0, 3, 1, 2)


def passed_through() -> TensorGraph:
    g = TensorGraph()
    y, s = useless_transposes(g), g.add_input("s", SHAPE, "INT8")
    return finish(g, y, s)


def cancelled() -> TensorGraph:
    """The second output is the second input after two transposes."""
    g = TensorGraph()
    y, s = useless_transposes(g), g.add_input("s", SHAPE, "INT8")
    return finish(g, y, transpose(g, transpose(g, s, 0, 2, 3, 1), 0, 3, 1, 2))


def cut_off() -> TensorGraph:
    """Nothing depends on the input a: the slice takes b out of the concat."""
    g = TensorGraph()
    y = useless_transposes(g)
    a, b = (g.add_input(name, (1, 4, 12, 20), "INT8") for name in "ab")
    joined = g.add("concat", [a, b], axis=1)
    return finish(g, y, relu(g, g.add("slice", [joined], start=(0, 4, 0, 0), size=(1, 4, 12, 20)), -3))


@pytest.mark.slow
@pytest.mark.parametrize(("source", "name"), [(passed_through, "ethos-u55-128"), (cancelled, "ethos-u85-256")])
def test_an_input_that_needs_no_operator_loses_no_gains(source, name: str, options: Options) -> None:
    graph, target = source(), Target.of(name)
    result = optimize_tosa(dumps(graph), target, options=replace(options, max_sram="any", max_flash="any"))
    assert (result.chosen, result.verified, result.warnings) == ("eqsat", True, [])
    assert "transpose" not in loads(result.tosa).op_counts() and result.calibrated < result.explicit_calibrated
    assert input_shapes(result.tosa, target) == [six(graph.type(i).shape) for i in graph.inputs]


def test_an_input_on_which_nothing_depends_stays(options: Options) -> None:
    graph, target = cut_off(), Target.of("ethos-u55-128")
    result = optimize_tosa(dumps(graph), target, options=options)
    assert (result.chosen, result.verified) == ("explicit", True)
    assert any("input 'a' would no longer be read" in w for w in result.warnings)
    assert input_shapes(result.tosa, target) == [six(graph.type(i).shape) for i in graph.inputs]
