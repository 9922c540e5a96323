"""Small TensorGraphs that the tests share, quantized as ExecuTorch quantizes: INT8 values, INT32 sums, RESCALE
between."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import Type, attrs_of
from eqsat.vela.facts import is_table_by_default, version

SINGLE_ROUND, INEXACT_ROUND, DOUBLE_ROUND = 1, 2, 3
_SCALE = 1 << 30  # a multiplier of 2**30 and a shift of 30: times one


#: For graphs that trade memory for cycles as the newest Vela places and prices their tensors; an older one has nothing
#: to trade there.
ON_THE_NEWEST_VELA = pytest.mark.skipif(is_table_by_default(version()), reason="made for the newest Vela")


def rescale(
    g: TensorGraph,
    x: int,
    dtype: str,
    *,
    multiplier: Sequence[int] = (_SCALE,),
    shift: Sequence[int] = (30,),
    rounding: int = SINGLE_ROUND,
    **more: Any,
) -> int:
    """RESCALE, per channel if there are several multipliers; more: other attributes, as of `makers.rescale`."""
    several = len(multiplier) > 1
    attrs = makers.rescale(dtype, multiplier, shift, rounding_mode=rounding, per_channel=several, **more)
    return g.add_with("rescale", [x], attrs)


def clamp(g: TensorGraph, x: int, low: int, high: int) -> int:
    return g.add_with("clamp", [x], makers.clamp(g.nodes[x].dtype, low, high))


def relu(g: TensorGraph, x: int, zero: int = -128) -> int:
    return clamp(g, x, zero, 127)


def conv(
    g: TensorGraph, x: int, channels: int, kernel: int = 1, *, stride: int = 1, dilation: int = 1, seed: int = 0
) -> int:
    """INT8 CONV2D with "same" padding for stride 1, and its per-channel RESCALE to INT8."""
    rng = np.random.default_rng(seed)
    depth, pad = g.nodes[x].shape[-1], (kernel - 1) // 2 * dilation
    w = g.add_const(rng.integers(-127, 128, (channels, kernel, kernel, depth)), "INT8")
    b = g.add_const(rng.integers(-500, 500, channels), "INT32")
    attrs = makers.conv("INT8", pad=(pad,) * 4, stride=(stride,) * 2, dilation=(dilation,) * 2, in_zp=-3)
    y = g.add_with("conv2d", [x, w, b], attrs)
    scales = rng.integers(1 << 30, (1 << 31) - 1, channels)
    return rescale(g, y, "INT8", multiplier=[int(s) for s in scales], shift=[38] * channels, out_zp=-5)


def add(g: TensorGraph, x: int, y: int) -> int:
    """A quantized addition: two RESCALEs to INT32, ADD, RESCALE to INT8."""
    wide = [rescale(g, v, "INT32", shift=(20,), in_zp=zp) for v, zp in ((x, -3), (y, 4))]
    return rescale(g, g.add("add", wide), "INT8", shift=(41,), out_zp=-7)


def transpose(g: TensorGraph, x: int, *perms: int) -> int:
    return g.add("transpose", [x], perms=perms)


def reshape(g: TensorGraph, x: int, *shape: int) -> int:
    return g.add("reshape", [x], shape=shape)


def gather(g: TensorGraph, x: int, index: int) -> int:
    """GATHER of rows of x [N, K, C] at index [N, W]."""
    return g.add("gather", [x, index])


def finish(g: TensorGraph, *outputs: int) -> TensorGraph:
    g.outputs = list(outputs)
    g.output_names = [f"y{i}" for i in range(len(outputs))]
    return g


def transposes(size: int = 4) -> TensorGraph:
    """A pair of transposes around a clamp, of no use."""
    g = TensorGraph()
    x = clamp(g, transpose(g, g.add_input("x", (1, size, size, 8), "INT8"), 0, 3, 1, 2), 0, 127)
    return finish(g, clamp(g, transpose(g, x, 0, 2, 3, 1), 5, 96))


def conv_graph() -> TensorGraph:
    g = TensorGraph()
    return finish(g, conv(g, g.add_input("x", (1, 8, 8, 16), "INT8"), 24, 3))


def residual() -> TensorGraph:
    """x + conv(relu(conv(x))), in one layout."""
    g = TensorGraph()
    x = g.add_input("x", (1, 8, 8, 16), "INT8")
    y = conv(g, relu(g, conv(g, x, 16, 3, seed=1)), 16, seed=2)
    return finish(g, add(g, x, y))


def transposed_relus(between: int = 3) -> TensorGraph:
    """conv, NHWC to NCHW, relus, back to NHWC, conv: the pair of transposes is of no use."""
    g = TensorGraph()
    y = transpose(g, conv(g, g.add_input("x", (1, 16, 16, 16), "INT8"), 24), 0, 3, 1, 2)
    for k in range(between):
        y = relu(g, y, -100 + k)
    return finish(g, conv(g, transpose(g, y, 0, 2, 3, 1), 16, seed=3))


def channel_shuffle(groups: int = 2) -> TensorGraph:
    """conv, a shuffle of the channels over reshape, transpose, reshape, conv."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 6, 6, 16), "INT8"), 16)
    n, h, w, c = g.nodes[x].shape
    y = transpose(g, reshape(g, x, n * h * w, groups, c // groups), 0, 2, 1)
    return finish(g, conv(g, reshape(g, y, n, h, w, c), 8, seed=4))


def opaque(
    g: TensorGraph,
    code: str,
    operands: Sequence[int],
    results: Sequence[Type],
    shapes: tuple[Any, ...] | None = None,
    **fields: Any,
) -> int:
    """An operator that the op table does not have; `shapes` are its shape operands, None standing for a tensor."""
    return g.add(
        "opaque",
        operands,
        tosa=code,
        fields=attrs_of(fields),
        shape_operands=shapes or (None,) * len(operands),
        shape=results[0].shape,
        dtype=results[0].dtype,
        results=tuple(results),
    )


def recomputed() -> TensorGraph:
    """A sum that computes one of its operands a second time, from a small input, rather than to keep it: an e-graph
    shares what is equal."""
    g = TensorGraph()
    x = g.add_input("x", (1, 16, 16, 4), "INT8")
    y = conv(g, conv(g, conv(g, conv(g, x, 64), 128, seed=1), 128, seed=2), 64, seed=3)
    again = conv(g, x, 64)
    total = g.add("add", [rescale(g, y, "INT32"), rescale(g, again, "INT32")])
    return finish(g, rescale(g, total, "INT8"))


def products(staged: bool, shape: Sequence[int] = (1, 32, 32, 240), by: Sequence[int] | None = None) -> TensorGraph:
    """Three products by constants that broadcast, of shape `by` (None: one element per channel), as in a
    normalization's scale. staged: the constants are read behind a CLAMP that does nothing, and so out of SRAM."""
    g, random = TensorGraph(), np.random.default_rng(0)
    y = g.add_input("x", tuple(shape), "INT8")
    for _ in range(3):
        c = g.add_const(random.integers(-127, 128, by or (1, 1, 1, shape[-1])), "INT8")
        c = clamp(g, c, -128, 127) if staged else c
        product = g.add_with("mul", [rescale(g, y, "INT32"), rescale(g, c, "INT32")], makers.mul())
        y = rescale(g, product, "INT8", shift=(37,))
    return finish(g, y)


def widening() -> TensorGraph:
    """Thin, wide and thin again: in turns of rows the wide tensor is never there as a whole."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 24, 24, 8), "INT8"), 48, 3, seed=1)
    return finish(g, conv(g, conv(g, x, 48, 3, seed=2), 8, 3, seed=3))


def operators(graph: TensorGraph) -> list[int]:
    """Its live nodes but inputs and constants."""
    return [n for n in graph.live() if graph.nodes[n].op not in ("input", "const")]


def are_equal(one: TensorGraph, other: TensorGraph) -> bool:
    """Whether two graphs compute the same on samples."""
    return all(
        np.array_equal(x, y)
        for inputs in samples(domains(one), 6)
        for x, y in zip(one.evaluate(inputs), other.evaluate(inputs), strict=True)
    )
