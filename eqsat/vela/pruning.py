"""The cycles of a graph if its convolutions were pruned to 2:4 before training.

An NPU with sparse weights computes some convolutions in half the time.
At most two of every four consecutive input channels may have a weight there.
Pruning changes results, so this is advice for whoever trains the model, and no rewrite.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.sparsity import pruned, two_of_four
from eqsat.tensor.types import Const, Shape, attrs_of
from eqsat.tosa.flatbuffer import loads, written_names
from eqsat.vela.compile import compile_graph


@dataclass(frozen=True, slots=True)
class Saving:
    """The saving of one convolution.

    node  : the convolution in the graph
    shape : shape of its result
    cycles: corrected cycles
    pruned: corrected cycles with weights of 2:4
    """

    node: int
    shape: Shape
    cycles: int
    pruned: int

    def __str__(self) -> str:
        return f"conv2d [{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Savings:
    """The savings of a whole graph.

    cycles      : corrected cycles
    pruned      : corrected cycles with all its convolutions pruned
    convolutions: the convolutions that gain, the largest saving first
    """

    cycles: int
    pruned: int
    convolutions: tuple[Saving, ...]


def pruning_savings(buffer: bytes, target: Target, via: Pool | Worker) -> Savings | None:
    """Compiles a TOSA flatbuffer as it is, and with the smaller half of its weights set to zero.

    Returns None if the target has no sparse weights, or no convolution can be pruned.
    Raises TosaError, WorkerError.
    """
    if not target.family.sparse_weights:
        return None
    graph = loads(buffer)
    sparse = with_pruned_weights(graph)
    if sparse is None:
        return None
    numbers = {name: n for n, name in written_names(graph).items()}
    dense, after = (compile_graph(g, target, via) for g in (graph, sparse))
    found = [
        Saving(numbers[a.name], graph.nodes[numbers[a.name]].shape, a.corrected, b.corrected)
        for a, b in zip(dense.operators, after.operators)
        if a.name == b.name in numbers and b.corrected < a.corrected
    ]
    return Savings(dense.corrected, after.corrected, tuple(sorted(found, key=lambda s: s.pruned - s.cycles)))


def with_pruned_weights(graph: TensorGraph) -> TensorGraph | None:
    """Returns the graph with two of every four consecutive input channels of its weights set to
    zero.

    The weights of least magnitude become zero.
    Only convolutions with constant weights [OC, KH, KW, IC] and w_zp 0 change; IC is a multiple of
    4.
    Returns None if this changes none.
    """
    nodes = list(graph.nodes)
    for n in graph.live():
        conv = graph.nodes[n]
        if conv.op != "conv2d" or conv.attr("w_zp") != (0,) or graph.nodes[conv.inputs[1]].op != "const":
            continue
        weights = graph.nodes[conv.inputs[1]]
        data = weights.attr("value").data
        if weights.shape[-1] % 4 == 0 and not two_of_four(data):
            value = Const(pruned(data), weights.dtype)
            nodes[conv.inputs[1]] = replace(weights, attrs=attrs_of({"value": value}))
    if nodes == graph.nodes:
        return None
    return TensorGraph(nodes, list(graph.inputs), list(graph.outputs), list(graph.output_names))
