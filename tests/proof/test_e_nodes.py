"""The e-nodes of a class are equal for every input: what rules make is proved, but for few that are undecided."""

from __future__ import annotations

import numpy as np
import pytest

from eqsat.checking.random_graphs import RULE, random_graph
from eqsat.egraph.encoding import ENode, saturate
from eqsat.proof.evaluation import evaluate, value_of, variable
from eqsat.proof.field import Field
from eqsat.proof.values import Terms, Value
from eqsat.rules import RULES
from eqsat.tensor.graph import Node, TensorGraph


def equal_and_all(graph: TensorGraph) -> tuple[int, int]:
    """How many e-nodes have the value of the first one of their class, and how many there are besides first ones."""
    frozen = saturate(graph, RULES)
    source = Terms(Field(3))
    evaluate(source, graph)
    t, values, counts = Terms(Field(3), source), dict[int, Value](), [0, 0]
    numbers = {graph.nodes[i].attr("name"): k for k, i in enumerate(graph.inputs)}

    def value(e: ENode) -> Value:
        operands, out = [values[c] for c in e.children], frozen.types[e.cls]
        if e.op == "input":
            return variable(t, numbers[dict(e.attrs)["name"]], out)
        if e.move is not None:
            return operands[0].moved(e.move.indices(), out.shape)
        return value_of(t, Node(e.op, e.children, e.attrs, out.shape, out.dtype), operands)

    left = [e for nodes in frozen.classes for e in nodes]
    while ready := [e for e in left if all(c in values for c in e.children)]:
        for e in ready:
            found = value(e)
            if e.cls not in values:
                values[e.cls] = found
            else:
                counts[0] += np.array_equal(t.lanes(found), t.lanes(values[e.cls]))
                counts[1] += 1
        left = [e for e in left if e not in ready]
    return counts[0], counts[1]


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 24, 8))
def test_nearly_all_e_nodes_are_proved(first: int) -> None:
    found = np.sum([equal_and_all(random_graph(seed, RULE)) for seed in range(first, first + 8)], 0)
    assert found[1] > 100 and found[0] >= 0.98 * found[1]


def test_all_e_nodes_of_a_small_graph_are_proved() -> None:
    equal, besides = equal_and_all(random_graph(7, RULE))
    assert equal == besides > 0
