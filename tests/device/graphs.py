"""Pieces of graphs whose binaries have every kind of command."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from eqsat.device.compile import compile_binary
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from tests.graphs import conv, finish, rescale

#: `compile_binary`, once for a graph and target.
compiled = cache(compile_binary)


def convolution(g: TensorGraph) -> int:
    x = g.add_input("image", (1, 15, 15, 8), "INT8")
    return conv(g, conv(g, x, 40, 3), 24, 3, stride=2)


def transposition(g: TensorGraph) -> int:
    return g.add("transpose", (g.add_input("turned", (1, 6, 5, 7), "INT8"),), perms=(0, 3, 1, 2))


def addition(g: TensorGraph) -> int:
    a, b = (
        rescale(g, g.add_input(n, (1, 6, 5, 7), "INT8"), "INT32", multiplier=(m,), shift=(11,))
        for n, m in (("a", 1 << 30), ("b", 3 << 28))
    )
    return rescale(g, g.add("add", (a, b)), "INT8", shift=(50,))


def table(g: TensorGraph) -> int:
    x = g.add_input("looked_up", (1, 4, 4, 8), "INT8")
    entries = np.random.default_rng(0).integers(-128, 128, 256).tolist()
    return g.add_with("table", [x], makers.table(entries))


def sum_of_channels(g: TensorGraph) -> int:
    x = rescale(g, g.add_input("summed", (1, 4, 4, 8), "INT8"), "INT32", in_zp=3)
    return rescale(g, g.add("reduce_sum", (x,), axis=3), "INT8", shift=(33,))


def product(g: TensorGraph) -> int:
    a, b = (g.add_input(n, (2, 6, 8), "INT8") for n in ("left", "right"))
    y = g.add_with("matmul", [a, g.add("transpose", (b,), perms=(0, 2, 1))], makers.matmul(1, -2))
    return rescale(g, y, "INT8", shift=(40,))


PIECES: tuple[Callable[[TensorGraph], int], ...] = (
    convolution,
    transposition,
    addition,
    table,
    sum_of_channels,
    product,
)


def of(*pieces: Callable[[TensorGraph], int]) -> TensorGraph:
    """A graph of pieces, each with inputs and an output of its own."""
    g = TensorGraph()
    return finish(g, *(piece(g) for piece in pieces))
