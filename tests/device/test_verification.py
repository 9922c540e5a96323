"""Binaries are judged sample by sample, and what cannot be judged says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from eqsat.device.binary import Binary, compile_binary
from eqsat.device.verification import check, judge_samples, outputs_of
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import pack, run_samples
from tests.device.pieces import addition, convolution, of
from tests.device.planted import with_word
from tests.device.verify import verify
from tests.graphs import U55, U85, compile_graph
from tests.term import inputs, outputs


@pytest.mark.parametrize("target", [U55, U85], ids=lambda t: t.accelerator)
@pytest.mark.parametrize("dead", [(0,), (1,), (0, 2)])
def test_inputs_that_nothing_reads_are_left_out(dead: tuple[int, ...], target: Target, worker: Worker) -> None:
    """Vela's binary has none of them."""
    given = inputs(" ".join(f"x{k}:INT8[1,4,4,8]" for k in range(3)))
    graph = outputs(*(x.relu(-3) for k, x in enumerate(given) if k not in dead))
    found = verify(dumps(graph), target, worker)
    assert (found.equal, found.reason, found.samples) == (True, "", 6)


def summed(high: int = 100) -> TensorGraph:
    """A sum of 4,096 products with a bias that overflows for values above 76, rescaled and clamped."""
    (x,) = inputs("x:INT8[1,1,1,4096]")
    sums = x.conv(np.full((1, 1, 1, 4096), 127), (1 << 31) - 40_000_000)
    return outputs(sums.rescale("INT8", shift=54).relu(-high))


def values(*everywhere: int) -> list[list[np.ndarray]]:
    """Samples of one value everywhere."""
    return [[np.full((1, 1, 1, 4096), v, np.int8)] for v in everywhere]


def judge(graph: TensorGraph, claimed: TensorGraph, inputs: list[list[np.ndarray]], worker: Worker):
    """The binary of a graph against the values of another one."""
    expected = run_samples(dumps(claimed), inputs, worker)
    assert not any(isinstance(e, WorkerError) for e in expected), "the reference model adds up whatever comes out"
    return check(graph, compile_graph(graph, U55, worker).raw, worker, inputs, lambda: expected)


def test_samples_that_overflow_are_left_out_and_the_others_count(worker: Worker) -> None:
    found = judge(summed(), summed(), values(3, 127, -100, 120), worker)
    assert (found.equal, found.reason, found.samples) == (True, "", 2)
    found = judge(summed(), summed(high=90), values(127, 3, 70), worker)
    assert found.equal is True, "the limits differ below what these samples reach"
    g = summed()
    other = replace(g, nodes=[*g.nodes[:-1], replace(g.nodes[-1], attrs=makers.clamp("INT8", -128, 0))])
    found = judge(g, other, values(127, 30, 70), worker)
    assert found.equal is False and "output 0 differs" in found.reason and found.samples == 2


def test_where_all_samples_overflow_nothing_is_judged(worker: Worker) -> None:
    found = judge(summed(), summed(), values(127, 120), worker)
    assert found.equal is None and found.reason == "TOSA leaves open what the graph gives on all of 2 samples"


def planted(change: Callable[[Binary], Binary], graph: TensorGraph, worker: Worker):
    """The verdict on a binary that was changed."""
    rng = np.random.default_rng(0)
    inputs = [[rng.integers(-128, 128, t.shape, dtype=np.int8) for t in graph.signature()[0]] for _ in range(3)]
    binary = change(compile_binary(dumps(graph), U55, worker))
    answers = outputs_of(binary, pack(np.stack(xs) for xs in zip(*inputs, strict=True)))
    expected = run_samples(dumps(graph), inputs, worker)
    return judge_samples(graph, answers, inputs, [e for e in expected if not isinstance(e, WorkerError)])


def test_damaged_weights_are_a_fault(worker: Worker) -> None:
    """Vela's own decoder ends its process there, which was no verdict."""
    found = planted(lambda b: replace(b, read_only=bytes(len(b.read_only))), of(convolution), worker)
    assert found.equal is False and "a stream of weights has no palette" in found.reason


def test_what_the_model_does_not_know_is_said(worker: Worker) -> None:
    graph = of(convolution)
    assert planted(lambda b: b, graph, worker).equal is True
    wrong = planted(lambda b: with_word(b, "SET_OFM_ZERO_POINT", lambda v: v + 1), graph, worker)
    assert wrong.equal is False and wrong.samples == 3
    unknown = planted(lambda b: with_word(b, "SET_IFM_PAD_TOP", lambda v: 127), graph, worker)
    assert unknown.equal is None and unknown.reason.startswith("the functional model cannot run it: ")
    assert "nothing but padding" in unknown.reason and unknown.reason.endswith("(on 3 of 3 samples)")


def test_a_stream_that_cannot_be_decoded_is_said(worker: Worker) -> None:
    found = planted(lambda b: replace(b, stream=b.stream[:-8] + b"\xff" * 8), of(addition), worker)
    assert found.equal is None and "its command stream" in found.reason
