"""Small TensorGraphs that tests share, quantized as by ExecuTorch: INT8 values, INT32 sums, RESCALE between."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tosa import dumps
from eqsat.tosa.locations import Origin, text
from eqsat.vela.compile import Estimate, compile_tosa
from eqsat.vela.facts import is_table_by_default, version
from tests.term import graph, inputs, outputs

#: An accelerator of each family.
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
U55, U65, U85 = (Target.of(name) for name in TARGETS)
#: For graphs that trade memory for cycles as the newest Vela places and prices their tensors; an older one has nothing
#: to trade there.
ON_THE_NEWEST_VELA = pytest.mark.skipif(is_table_by_default(version()), reason="made for the newest Vela")


def transposes(size: int = 4) -> TensorGraph:
    """A pair of transposes around a clamp, of no use."""
    return graph(f"x:INT8[1,{size},{size},8]", lambda x: x.nchw().clamp(0, 127).nhwc().clamp(5, 96))


def conv_graph() -> TensorGraph:
    return graph("x:INT8[1,8,8,16]", lambda x: x.layer(24, 3))


def residual() -> TensorGraph:
    """x + conv(relu(conv(x))), in one layout."""
    return graph("x:INT8[1,8,8,16]", lambda x: x.plus(x.layer(16, 3, seed=1).relu().layer(16, seed=2)))


def transposed_relus(between: int = 3) -> TensorGraph:
    """conv, NHWC to NCHW, relus, back to NHWC, conv: the pair of transposes is of no use."""
    (x,) = inputs("x:INT8[1,16,16,16]")
    y = x.layer(24).nchw()
    for k in range(between):
        y = y.relu(-100 + k)
    return outputs(y.nhwc().layer(16, seed=3))


def channel_shuffle(groups: int = 2) -> TensorGraph:
    """conv, a shuffle of the channels over reshape, transpose, reshape, conv."""
    (x,) = inputs("x:INT8[1,6,6,16]")
    y = x.layer(16).reshape(36, groups, 16 // groups).transpose(0, 2, 1).reshape(1, 6, 6, 16)
    return outputs(y.layer(8, seed=4))


def shared_rescale(size: int = 4) -> TensorGraph:
    """Two sums of the same values, which share one RESCALE to INT32 each, as no graph from ExecuTorch has it."""
    x, y = (v.rescale("INT32", shift=20) for v in inputs(f"x:INT8[1,{size},{size},8] y:INT8[1,{size},{size},8]"))
    return outputs((x + y).rescale("INT8", shift=42), (x - y).rescale("INT8", shift=42))


def recomputed() -> TensorGraph:
    """A sum that computes an operand a second time, from a small input, where an e-graph shares what is equal."""
    (x,) = inputs("x:INT8[1,16,16,4]")
    y = x.layer(64).layer(128, seed=1).layer(128, seed=2).layer(64, seed=3)
    return outputs((y.rescale("INT32") + x.layer(64).rescale("INT32")).rescale("INT8"))


def products(staged: bool, shape: Sequence[int] = (1, 32, 32, 240), by: Sequence[int] | None = None) -> TensorGraph:
    """Three products by constants that broadcast, of shape `by` (None: one element per channel), as in a
    normalization's scale. staged: the constants are read behind a CLAMP that does nothing, and so out of SRAM."""
    random = np.random.default_rng(0)
    (y,) = inputs(f"x:INT8{[*shape]}")
    for _ in range(3):
        c = y.const(random.integers(-127, 128, by or (1, 1, 1, shape[-1])))
        c = c.clamp(-128, 127) if staged else c
        y = (y.rescale("INT32") * c.rescale("INT32")).rescale("INT8", shift=37)
    return outputs(y)


def widening() -> TensorGraph:
    """Thin, wide and thin again: in turns of rows the wide tensor is never there as a whole."""
    return graph("x:INT8[1,24,24,8]", lambda x: x.layer(48, 3, seed=1).layer(48, 3, seed=2).layer(8, 3, seed=3))


def operators(graph: TensorGraph) -> list[int]:
    """Its live nodes but inputs and constants."""
    return [n for n in graph.live() if graph.nodes[n].op not in ("input", "const")]


def compile_graph(graph: TensorGraph, target: Target, via: Pool | Worker) -> Estimate:
    return compile_tosa(dumps(graph), target, via)


def located(graph: TensorGraph, each: int = 2) -> bytes:
    """The graph in a file with an origin per operator, so many operators a module."""
    numbered = enumerate(operators(graph))
    return dumps(graph, {n: text([Origin(f"op{n}", f"layer{i // each}", "torch.nn.Some")]) for i, n in numbered})


def are_equal(one: TensorGraph, other: TensorGraph) -> bool:
    """Whether two graphs compute the same on samples."""
    return all(
        np.array_equal(x, y)
        for inputs in samples(domains(one), 6)
        for x, y in zip(one.evaluate(inputs), other.evaluate(inputs), strict=True)
    )
