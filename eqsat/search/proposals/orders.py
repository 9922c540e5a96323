"""Other orders of a graph, ranked by the memory that is live in them, and the operands that decide them.

Vela walks from the outputs, depth first, and visits the last operand first.
It runs each operator once all of its operands are there (TraverseGraphFromEnd in regor's graph.hpp).
So the operands of a commutative operator decide which side is computed first, and thereby which tensors are live
meanwhile and which operators are neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from eqsat.choice.compiled import Compiled
from eqsat.search.proposal import Ask, Asking, State, one_by_one
from eqsat.tensor.graph import TensorGraph

#: Operators of two operands that may be swapped without changing any bit.
_COMMUTATIVE = frozenset(
    ("add", "mul", "maximum", "minimum", "equal", "bitwise_and", "bitwise_or", "bitwise_xor")
    + ("logical_and", "logical_or", "logical_xor")
)


def swaps(graph: TensorGraph) -> list[int]:
    """Returns the nodes whose two operands may change places, which may change the order in which the graph runs."""

    def may_swap(op: str, operands: Sequence[int]) -> bool:
        return op in _COMMUTATIVE and len({*operands}) == 2 and all(graph.nodes[i].inputs for i in operands)

    return [n for n in graph.live() if may_swap(graph.nodes[n].op, graph.nodes[n].inputs)]


def with_swap(graph: TensorGraph, n: int) -> TensorGraph:
    """Returns the graph with the two operands of a node swapped."""
    nodes = list(graph.nodes)
    nodes[n] = replace(nodes[n], inputs=nodes[n].inputs[::-1])
    return TensorGraph(nodes, graph.inputs, graph.outputs, graph.output_names)


def execution(graph: TensorGraph) -> list[int]:
    """Returns the operators in the order in which Vela runs them, assuming that it fuses none."""
    order: list[int] = []
    visited = set[int]()
    stack = [(False, o) for o in graph.outputs]
    while stack:
        is_done, n = stack.pop()
        if is_done:
            order.append(n)
        elif n not in visited and graph.nodes[n].inputs:
            visited.add(n)
            stack.append((True, n))
            stack += [(False, i) for i in graph.nodes[n].inputs]
    return order


@dataclass(frozen=True, slots=True)
class Allocation:
    """Vela's allocation of the nodes of a graph, which a swap changes little.

    steps: nodes that Vela runs as operators of their own.
    sizes: {node: bytes of its tensor in SRAM}.
    weights: {node: bytes of the weights in SRAM while it runs}.
    """

    steps: frozenset[int]
    sizes: Mapping[int, int]
    weights: Mapping[int, int]

    @staticmethod
    def of(compiled: Compiled) -> Allocation:
        """Returns the allocation of a compiled graph."""
        numbers, estimate = compiled.nodes, compiled.estimate
        made = [numbers.get(r.source or r.name, -1) for r in estimate.operators]
        sizes, weights = dict[int, int](), dict.fromkeys(made, 0)
        for t in estimate.tensors:
            if t.name in numbers:
                sizes[numbers[t.name]] = t.end - t.address
            elif (k := estimate.step_of(t)) is not None:
                weights[made[k]] += t.end - t.address
        return Allocation(frozenset(made) - {-1}, sizes, weights)

    def order(self, graph: TensorGraph) -> list[int]:
        """Returns the steps in the order in which they run."""
        return [n for n in execution(graph) if n in self.steps]

    def in_sram(self, graph: TensorGraph) -> list[int]:
        """Returns the bytes of tensors in SRAM at each step of a graph with the same nodes.

        What is no step is written and read by the steps before and behind it, such as a CONCAT in place.
        """
        step = {n: k for k, n in enumerate(self.order(graph))}
        first, last = dict[int, int](), dict.fromkeys(graph.outputs, len(step))
        for n in graph.live():
            known = [first[i] for i in graph.nodes[n].inputs if i in first]
            if n in step or known or graph.nodes[n].op == "input":
                first[n] = step.get(n, min(known, default=0))
        for n in reversed(graph.live()):
            if (at := step.get(n, last.get(n))) is not None:
                last |= {i: max(at, last.get(i, 0)) for i in graph.nodes[n].inputs}
        out = [*(self.weights[n] for n in step), 0]
        for n, size in self.sizes.items():
            for k in range(first.get(n, 0), last.get(n, 0) + 1):
                out[k] += size
        return out


def orders(state: State) -> Asking:
    """Asks for the order in which least is live, and then for single swaps, each of the best graph so far.

    Swaps come by their peaks and, of those with equal peaks, the ones that change most first.
    No swap is left out for what is live: Vela may place tensors better or worse than that suggests.
    """
    start = state.origin
    allocation, known, arranged = Allocation.of(start), swaps(start.graph), start.graph

    def cost(graph: TensorGraph) -> tuple[int, int]:
        """Returns the most bytes that are in SRAM at once, and their sum over the steps."""
        in_sram = allocation.in_sram(graph)
        return max(in_sram), sum(in_sram)

    for swap in reversed(known):
        arranged = min(arranged, with_swap(arranged, swap), key=cost)
    if arranged is not start.graph:
        state = yield Ask([start.rewrite(arranged, "order")])
    best = state.best or start
    order, (_, before) = allocation.order(best.graph), cost(best.graph)
    changes = list[tuple[int, int, int]]()
    for swap in known:
        after = with_swap(best.graph, swap)
        if allocation.order(after) != order:
            most, total = cost(after)
            changes.append((most, -abs(total - before), swap))
    left = [swap for _, _, swap in sorted(changes)]
    yield from one_by_one(state, left, lambda some: best.rewrite(reduce(with_swap, some, best.graph), "order"))
