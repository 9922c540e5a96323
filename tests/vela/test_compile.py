"""Vela in process gives the command line's totals; the comparison finds what differs."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from eqsat.target import Target
from eqsat.tensor.dtypes import STORAGE
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.numerics import LIMITS
from eqsat.tensor.types import Type
from eqsat.tosa import dumps
from eqsat.tosa.reference import compare, samples
from eqsat.vela.compile import compile_graph
from eqsat.workers.worker import Worker, WorkerError
from tests.graphs import channel_shuffle, conv, finish, relu, residual, transposed_relus

TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
BUILDERS = (residual, transposed_relus, channel_shuffle)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", BUILDERS)
def test_total_is_the_command_lines(build, target: str, worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "graph.tosa"
    path.write_bytes(dumps(build()))
    vela = Path(sys.executable).parent / "vela"
    command = [vela, *Target.of(target).flags, f"--output-dir={tmp_path}", path]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    (summary,) = tmp_path.glob("*_summary_*.csv")
    with summary.open() as f:
        (row,) = csv.DictReader(f)
    assert compile_graph(build(), Target.of(target), worker).cycles == int(row["cycles_total"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("build", BUILDERS)
def test_kinds_sum_to_the_total(build, target: str, worker: Worker) -> None:
    estimate = compile_graph(build(), Target.of(target), worker)
    assert sum(estimate.by_kind.values()) == estimate.cycles
    assert estimate.by_kind["convolution"] > 0
    assert all(figures for figures in estimate.memory.values())


def test_kinds_tell_data_movement_apart(worker: Worker) -> None:
    target = Target.of("ethos-u55-128")
    assert compile_graph(transposed_relus(), target, worker).by_kind["transpose"] > 0
    assert "transpose" not in compile_graph(residual(), target, worker).by_kind


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
        g.add(
            "minimum",
            [g.add("cast", [x], dtype="INT32"), g.add_const(np.full((1, 1, 1, 1), high), "INT32")],
            nan_mode=1,
        ),
    )


def test_compare_tries_the_extremes(worker: Worker) -> None:
    outcome = compare(at_the_edge(127), at_the_edge(126), worker, trials=2)
    assert not outcome.equal and outcome.max_difference == 1 and "output 1" in outcome.reason


def test_compare_wants_the_same_signature_and_names(worker: Worker) -> None:
    assert "signatures" in compare(residual(), channel_shuffle(), worker).reason
    assert "inputs" in compare(with_bias(0), with_bias(0, "other"), worker).reason


def test_outputs_that_the_model_does_not_show_are_no_match(worker: Worker) -> None:
    """The reference model answers nothing for an INT48 output: two such graphs must not pass as equal."""

    def graph(bias: int) -> TensorGraph:
        g = TensorGraph()
        x = g.add_input("x", (1, 2, 2, 1), "INT16")
        w, b = g.add_const(np.ones((1, 1, 1, 1)), "INT8"), g.add_const(np.array([bias]), "INT48")
        return finish(
            g,
            g.add(
                "conv2d",
                [x, w, b],
                pad=(0,) * 4,
                stride=(1, 1),
                dilation=(1, 1),
                acc_type=6,
                local_bound=False,
                in_zp=(0,),
                w_zp=(0,),
            ),
        )

    with pytest.raises(WorkerError, match="INT48"):
        compare(graph(0), graph(1), worker)


def test_inputs_that_cannot_be_made_are_an_error(worker: Worker) -> None:
    g = TensorGraph()
    finish(g, g.add("identity", [g.add_input("x", (2,), "BF16")]))
    with pytest.raises(WorkerError, match="BF16"):
        compare(g, g, worker)


@pytest.mark.parametrize("dtype", ["BOOL", "INT8", "INT16", "INT32"])
def test_samples_begin_with_the_extremes(dtype: str) -> None:
    low, high = LIMITS[dtype] if dtype != "INT32" else (-(2**20), 2**20)
    drawn = [xs[0] for xs in samples([Type((4, 50), dtype)], 6)]
    assert all(x.dtype == STORAGE[dtype] and x.shape == (4, 50) and low <= x.min() and x.max() <= high for x in drawn)
    assert (drawn[0] == low).all() and (drawn[1] == high).all()
    assert set(np.unique(drawn[2])) == {low, high}
    assert not np.array_equal(drawn[3], drawn[4])
    again = [xs[0] for xs in samples([Type((4, 50), dtype)], 6)]
    assert all(np.array_equal(a, b) for a, b in zip(drawn, again, strict=True))
