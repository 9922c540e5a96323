"""Every input stays in the binary that Vela makes, with the shape that it had."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from eqsat.choice.signature import unread, with_inputs_read
from eqsat.ground.worker import Worker
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
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
@pytest.mark.parametrize(
    ("source", "name"), [(passed_through, "ethos-u55-128"), (cancelled, "ethos-u85-256"), (cut_off, "ethos-u55-128")]
)
def test_an_input_that_needs_no_operator_loses_no_gains(source, name: str, options: Options) -> None:
    graph, target = source(), Target.of(name)
    result = optimize_tosa(dumps(graph), target, options=replace(options, max_sram="any", max_flash="any"))
    assert (result.chosen, result.verified, result.warnings) == ("eqsat", True, [])
    assert "transpose" not in loads(result.tosa).op_counts() and result.calibrated < result.explicit_calibrated
    assert input_shapes(result.tosa, target) == [six(graph.type(i).shape) for i in graph.inputs]


@pytest.mark.parametrize("dtype", ["INT8", "INT16", "INT32"])
@pytest.mark.parametrize("shape", [(1, 4, 3), (5,), ()])
def test_a_reader_that_changes_nothing(dtype: str, shape: tuple[int, ...], worker: Worker) -> None:
    def graph(reads: bool) -> TensorGraph:
        g = TensorGraph()
        x, s = g.add_input("x", (2, 8), dtype), g.add_input("s", shape, dtype)
        big = g.add("concat", [x, x], axis=0)
        small = g.add("slice", [big], start=(0, 1), size=(1, 3))
        return finish(g, big, small, *([g.add("tile", [s], multiples=(1,) * len(shape))] if reads else []))

    g = graph(False)
    assert unread(g) == [1] and unread(graph(True)) == []
    origin = {n: 100 + n for n in g.live() if n not in g.inputs}
    written, new_origin = with_inputs_read(g, origin, graph(True))
    assert unread(written) == [] and written.signature() == g.signature()
    kept = {written.nodes[n].op: c for n, c in new_origin.items()}
    assert kept == {g.nodes[n].op: c for n, c in origin.items()}, "the operators that were there keep their origin"
    for inputs in samples(domains(g), 5):
        for before, after in zip(g.evaluate(inputs), written.evaluate(inputs), strict=True):
            assert np.array_equal(before, after)
    if shape:
        for name in ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256"):
            assert input_shapes(dumps(written), Target.of(name)) == [six((2, 8)), six(shape)]
    assert with_inputs_read(g, origin, g) == (g, origin), "what the source does not read either is left alone"


def test_without_a_value_of_its_dtype_an_input_stays_unread() -> None:
    g, h = TensorGraph(), TensorGraph()
    for graph in (g, h):
        x, s = graph.add_input("x", (4,), "INT8"), graph.add_input("s", (4,), "INT16")
        finish(graph, relu(graph, x), *([graph.add("reverse", [s], axis=0)] if graph is h else []))
    assert with_inputs_read(g, {}, h)[0] is g


def test_nodes_that_no_output_reads_need_no_origin() -> None:
    """A choice may write views that nothing reads in the end."""

    def graph(*outputs: str) -> tuple[TensorGraph, dict[str, int]]:
        g = TensorGraph()
        n = {"x": g.add_input("x", (2, 3), "INT8"), "s": g.add_input("s", (4,), "INT8")}
        n["y"] = relu(g, n["x"])
        n["dead"] = transpose(g, n["y"], 1, 0)
        return finish(g, *(n[name] for name in outputs)), n

    source, _ = graph("y", "s")
    chosen, n = graph("y")
    written, origin = with_inputs_read(chosen, {n["y"]: 7, n["dead"]: 8}, source)
    assert unread(written) == [] and list(origin.values()) == [7]
