"""Random legal TensorGraphs over all operators of the op table, shaped by a profile.

>>> g = random_graph(7)
>>> 5 <= sum(g.op_counts().values()), random_graph(7) == g
(True, True)

Small ones, of a few operators on a few elements, are those of `eqsat.checking.random_graphs`.
A graph is a sequence of blocks, each reading the newest value or, for forks, an older one.
Kinds of blocks: `moving`, `pieces`, `elementwise`, `reductions`, `products`, `indexing`.
A graph is legal for the TOSA reference model, level 8K.
Equal seeds and profiles give equal graphs.
"""

from __future__ import annotations

import numpy as np

# importing a kind of blocks registers them, and their order decides what a seed draws
from tests.random_graphs import moving, pieces, elementwise, reductions, products, indexing  # noqa: F401  # isort: skip
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Array, GraphError
from tests.random_graphs.builder import BLOCKS, Builder, Unfit
from tests.random_graphs.profiles import NETWORK, PROFILES, Profile

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
    if b.size(x) > b.largest // 2:
        grow = pieces.part
    nodes, inputs = len(b.g.nodes), len(b.g.inputs)
    try:
        new = grow(b, x)
    except (Unfit, GraphError):  # drops the nodes that it had added
        if len(b.g.inputs) == inputs:
            b.g = _first(b.g, nodes)
        return
    b.values += [v for v in new if len(b.shape(v)) >= 1]


def _first(g: TensorGraph, count: int) -> TensorGraph:
    out = TensorGraph(nodes=g.nodes[:count], inputs=list(g.inputs))
    out._constants.update({n: k for n, k in g._constants.items() if k < count})
    return out


def _finished(b: Builder) -> TensorGraph:
    """Returns the finished graph: with outputs, and without inputs that nothing reads.

    Now and then an output is unsigned, occurs twice, or is an input as it is.
    """
    outputs = [o for o in _outputs(b) if b.g.nodes[o].op not in ("input", "const")]
    b.g.outputs = outputs or [b.unary(b.values[0])]
    if b.dtype(b.g.outputs[0]) == "INT8" and b.chance(0.1):
        b.g.outputs[0] = b.rescale(b.g.outputs[0], "INT8", out_zp=b.zero("INT8"), output_unsigned=True)
    if b.chance(0.1):  # one value in two slots, or an input as it is
        b.g.outputs.append(b.of(b.g.outputs[0], b.values[0]))
    b.g.output_names = [f"y{i}" for i in range(len(b.g.outputs))]
    g = b.g.pruned()
    readers = g.readers()
    g.inputs = [i for i in g.inputs if readers[i] or i in g.outputs]
    return g.pruned()


def _outputs(b: Builder) -> list[int]:
    """Returns the newest value, up to three unread ones, and now and then one that is read."""
    read = {i for n in b.g.nodes for i in n.inputs}
    unread = [v for v in dict.fromkeys(b.values) if v not in read]
    inside = [v for v in dict.fromkeys(b.values) if v in read and b.g.nodes[v].op != "input"]
    b.rng.shuffle(unread)
    more = [b.of(*inside)] if inside and b.chance(0.3) else []
    return list(dict.fromkeys([b.values[-1], *map(int, unread[:3]), *more]))
