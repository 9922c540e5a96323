"""A concrete graph cut into fused groups: what Vela may make one operator, or one chain of operators, of."""

from __future__ import annotations

from collections.abc import Mapping

from networkx.utils import UnionFind

from cost_models.fusion import ACTIVATIONS
from cost_models.unit_graph import through_views
from eqsat.target import Family
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS

#: Ops in one group: a longer chain is cut.
_LARGEST = 64
#: Ops that join the producer that only they read.
_JOINING = ("rescale", *ACTIVATIONS, "reshape")


def groups(graph: TensorGraph, family: Family) -> list[list[int]]:
    """The live ops of `graph` in sets that may fuse, each in topological order.

    RESCALE, CLAMP, TABLE, RESHAPE (and TRANSPOSE where it fuses) join the producer that only they read; a widening
    RESCALE joins its reader; transposes with nothing but reshapes between them are one movement to Vela; elementwise
    ops of one shape may chain.
    """
    readers = graph.readers()
    sets = UnionFind(n for n in readers if OPS[graph.nodes[n].op].kind != "leaf")
    for n in sets:
        for i in graph.nodes[n].inputs:
            if i in sets.parents and len(set(readers[i])) == 1 and _join(graph, readers, n, i, family):
                _unite(sets, n, i)
    return sorted(sorted(members) for members in sets.to_sets())


def _join(graph: TensorGraph, readers: Mapping[int, list[int]], n: int, i: int, family: Family) -> bool:
    """Whether `n` may be part of one operator, or of one chain, with `i`, which only it reads."""
    node, source = graph.nodes[n], graph.nodes[i]
    if node.op in _JOINING or source.op == "rescale" and not DType.of(source.dtype).is_activation:
        return True
    if node.op == "transpose" and (family.transposes.fused or _is_moved(graph, readers, i)):
        return True
    pointwise = OPS[node.op].kind == OPS[source.op].kind == "pointwise"
    return family.chained and pointwise and node.shape == source.shape


def _unite(sets: UnionFind, n: int, i: int) -> None:
    """Unless the group would be longer than the longest."""
    if sets[n] != sets[i] and sets.weights[sets[n]] + sets.weights[sets[i]] <= _LARGEST:
        sets.union(n, i)


def _is_moved(graph: TensorGraph, readers: Mapping[int, list[int]], n: int) -> bool:
    """Whether `n` is a transpose, or a view of one, that nothing else reads."""
    n = through_views(graph, readers, n)
    return graph.nodes[n].op == "transpose" and len(readers[n]) == 1
