"""Random legal TensorGraphs over all operators of the op table, shaped by a profile.

>>> g = random_graph(7)
>>> 5 <= sum(g.op_counts().values()), random_graph(7) == g
(True, True)

Small ones, of a few operators on a few elements, are those of `eqsat.checking.random_graphs`.
A graph is a sequence of blocks, each reading the newest value or, for forks, an older one.
Blocks move data (`movement`) or compute (`operators`).
A graph is legal for the TOSA reference model, level 8K.
Equal seeds and profiles give equal graphs.
"""

from __future__ import annotations

from math import prod

import numpy as np

from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Array, GraphError

# importing blocks registers them, and their order decides what a seed draws
from tests.random_graphs import movement, operators  # noqa: F401
from tests.random_graphs.builder import BLOCKS, Builder, Unfit
from tests.random_graphs.profiles import NETWORK, PROFILES, Profile
from tests.term import Term

__all__ = ["NETWORK", "PROFILES", "Profile", "random_graph"]


def random_graph(seed: int, profile: Profile = NETWORK) -> TensorGraph:
    """Returns the random graph of a seed and a profile."""
    rng = np.random.default_rng(seed)
    while True:
        b = Builder(rng, profile.largest, profile.without)
        wanted = b.between(profile.fewest, profile.most)
        shape = b.of(*profile.shapes)
        dtype = b.of(*profile.dtypes)
        b.values = [b.input(shape, dtype) for _ in range(b.of(1, 1, 1, 2))]
        # each graph prefers a random part of the blocks, so that these meet often
        weights = np.array([w for _, w in BLOCKS]) * rng.choice([0.05, 1.0, 4.0], len(BLOCKS), p=[0.5, 0.3, 0.2])
        for _ in range(4 * wanted):
            if _operators(b.g) >= wanted:
                break
            _grow(b, weights / weights.sum())
        if _operators(b.g) >= profile.fewest:
            return _finished(b)


def _operators(g: TensorGraph) -> int:
    return sum(OPS[n.op].kind != "leaf" for n in g.nodes)


def _grow(b: Builder, weights: Array) -> None:
    """Adds one random block, unless it does not fit."""
    x = b.values[-1] if b.chance(0.75) else b.of(*b.values)
    grow, _ = BLOCKS[int(b.rng.choice(len(BLOCKS), p=weights))]
    if prod(x.shape) > b.largest // 2:
        grow = movement.part
    nodes, inputs = len(b.g.nodes), len(b.g.inputs)
    try:
        b.values += [v for v in grow(b, x) if len(v.shape) >= 1]
    except (Unfit, GraphError):
        if len(b.g.inputs) == inputs:
            _forget(b.g, nodes)


def _forget(g: TensorGraph, first: int) -> None:
    """Drops the nodes from one on, on which nothing depends."""
    del g.nodes[first:]
    for node in [node for node, n in g._constants.items() if n >= first]:
        del g._constants[node]


def _finished(b: Builder) -> TensorGraph:
    """Returns the finished graph: with outputs, and without inputs that nothing reads.

    Now and then an output is unsigned, occurs twice, or is an input as it is.
    """
    g, first = b.g, b.values[0]
    outputs = [o for o in _outputs(b) if g.nodes[o.n].op not in ("input", "const")] or [b.unary(first)]
    if outputs[0].dtype == "INT8" and b.chance(0.1):
        outputs[0] = outputs[0].rescale("INT8", out_zp=b.zero("INT8"), output_unsigned=True)
    if b.chance(0.1):  # one value in two slots, or an input as it is
        outputs.append(b.of(outputs[0], first))
    g.outputs, g.output_names = [o.n for o in outputs], [f"y{i}" for i in range(len(outputs))]
    pruned = g.pruned()
    readers = pruned.readers()
    pruned.inputs = [i for i in pruned.inputs if readers[i] or i in pruned.outputs]
    return pruned.pruned()


def _outputs(b: Builder) -> list[Term]:
    """Returns the newest value, up to three unread ones, and now and then one that is read."""
    read, values = {i for n in b.g.nodes for i in n.inputs}, {v.n: v for v in b.values}
    unread = [v for n, v in values.items() if n not in read]
    inside = [v for n, v in values.items() if n in read and b.g.nodes[n].op != "input"]
    b.rng.shuffle(unread)
    more = [b.of(*inside)] if inside and b.chance(0.3) else []
    return list({v.n: v for v in (b.values[-1], *unread[:3], *more)}.values())
