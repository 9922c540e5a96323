"""What a graph would take if its convolutions were pruned to 2:4 before training.

An NPU with sparse weights computes a convolution in half the time if at most two of every four consecutive input
channels have a weight. Pruning changes results, so this is advice for who trains the model, and no rewrite.
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
    """Corrected cycles of one convolution of the graph (`node`, whose result has `shape`), and those with weights of
    2:4."""

    node: int
    shape: Shape
    cycles: int
    pruned: int

    def __str__(self) -> str:
        return f"conv2d [{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class Savings:
    """Corrected cycles of the whole graph, those with all its convolutions pruned, and the convolutions that gain, the
    largest saving first."""

    cycles: int
    pruned: int
    convolutions: tuple[Saving, ...]


def pruning_savings(buffer: bytes, target: Target, via: Pool | Worker) -> Savings | None:
    """Compiles a TOSA flatbuffer as it is and with the smaller half of its weights zero.

    None where the target has no sparse weights, or no convolution has weights that could be pruned.
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
        Saving(numbers[a["name"]], graph.nodes[numbers[a["name"]]].shape, int(a["corrected"]), int(b["corrected"]))
        for a, b in zip(dense.operators, after.operators)
        if a["name"] == b["name"] in numbers and int(b["corrected"]) < int(a["corrected"])
    ]
    return Savings(dense.corrected, after.corrected, tuple(sorted(found, key=lambda s: s.pruned - s.cycles)))


def with_pruned_weights(graph: TensorGraph) -> TensorGraph | None:
    """The graph with two of every four consecutive input channels of its convolutions at zero.

    Those of least magnitude are zero then.
    None where no convolution has constant weights [OC, KH, KW, IC] of which this changes any.
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
