"""A concrete graph cut into fused groups.

Vela may make one operator, or one chain of operators, of a group.
"""

from __future__ import annotations

from collections.abc import Mapping

from networkx.utils import UnionFind

from cost_models.fusion import ACTIVATIONS
from cost_models.unit_graph import through_views
from eqsat.target import Family
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS

#: Ops in one group, at most: a longer chain is cut.
_LARGEST = 64
#: Ops that join their producer if they are its only readers.
_JOINING = ("rescale", *ACTIVATIONS, "reshape")


def groups(graph: TensorGraph, family: Family) -> list[list[int]]:
    """Returns the live ops of `graph` in groups that may fuse, each in topological order.

    RESCALE, CLAMP, TABLE and RESHAPE join the producer whose only reader they are.
    So does a TRANSPOSE if it fuses.
    A widening RESCALE joins its only reader.
    Transposes with only reshapes between them are one movement to Vela.
    Elementwise ops of one shape may form a chain.
    """
    readers = graph.readers()
    sets = UnionFind(n for n in readers if OPS[graph.nodes[n].op].kind != "leaf")
    for n in sets:
        for i in graph.nodes[n].inputs:
            if i in sets.parents and len(set(readers[i])) == 1 and _join(graph, readers, n, i, family):
                _unite(sets, n, i)
    return sorted(sorted(members) for members in sets.to_sets())


def _join(graph: TensorGraph, readers: Mapping[int, list[int]], n: int, i: int, family: Family) -> bool:
    """Whether `n` may be in one operator or chain with `i`, whose only reader it is."""
    node, source = graph.nodes[n], graph.nodes[i]
    if node.op in _JOINING or source.op == "rescale" and not DType.of(source.dtype).is_activation:
        return True
    if node.op == "transpose" and (family.transposes.fused or _is_moved(graph, readers, i)):
        return True
    pointwise = OPS[node.op].kind == OPS[source.op].kind == "pointwise"
    return family.chained and pointwise and node.shape == source.shape


def _unite(sets: UnionFind, n: int, i: int) -> None:
    """Unites two groups, unless the result would have more than _LARGEST ops."""
    if sets[n] != sets[i] and sets.weights[sets[n]] + sets.weights[sets[i]] <= _LARGEST:
        sets.union(n, i)


def _is_moved(graph: TensorGraph, readers: Mapping[int, list[int]], n: int) -> bool:
    """Whether `n` is a transpose, or a view of one, with one reader."""
    n = through_views(graph, readers, n)
    return graph.nodes[n].op == "transpose" and len(readers[n]) == 1
