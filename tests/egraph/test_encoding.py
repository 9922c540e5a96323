"""A TensorGraph in the e-graph and back: every node has its class, type and e-node."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

from eqsat.egraph.attributes import Call
from eqsat.egraph.encoding import DECLARATIONS, saturate
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.kinds import Concat, Value
from eqsat.egraph.rule import rule
from eqsat.egraph.terms import symbols
from eqsat.rules import RULES
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type
from tests.graphs import (
    add,
    channel_shuffle,
    conv,
    conv_graph,
    finish,
    relu,
    rescale,
    reshape,
    residual,
    transpose,
    transposed_relus,
)
from tests.planted import RETYPED


def everything() -> TensorGraph:
    """At least one node for every constructor."""
    g = TensorGraph()
    x, unread = g.add_input("x", (1, 4, 4, 8), "INT8"), g.add_input("unread", (2,), "BOOL")
    y = conv(g, x, 8)
    z = g.add("concat", [y, x, y], axis=3)
    z = g.add("slice", [z], start=(0, 0, 0, 8), size=(1, 4, 4, 8))
    z = add(g, z, g.add_with("max_pool2d", [y], makers.max_pool((1, 1))))
    s = g.add(
        "select",
        [g.add_const(np.ones((1, 1, 1, 1)), "BOOL"), transpose(g, z, 0, 3, 1, 2), transpose(g, relu(g, z), 0, 3, 1, 2)],
    )
    m = g.add("matmul", [reshape(g, s, 8, 4, 4), reshape(g, s, 8, 4, 4)], in_zp=(0,), w_zp=(0,))
    t = Type((3,), "INT8")
    o = g.add(
        "opaque",
        [rescale(g, m, "INT8", shift=(40,))],
        tosa="CUSTOM",
        fields=(),
        shape_operands=(None,),
        shape=t.shape,
        dtype=t.dtype,
        results=(t, Type((2,), "INT8")),
    )
    i = g.add("item", [o], index=1, shape=(2,), dtype="INT8")
    assert unread == 1
    return finish(g, o, i, s, x, s)


def test_a_concat_inside_a_right_side_gets_its_type() -> None:
    g = TensorGraph()
    operands = [g.add_input(f"x{n}", (2, n, 3), "INT16") for n in (4, 5, 6)]
    finish(g, g.add("concat", operands, axis=1))
    concat, (x, y, z) = symbols("concat", Concat), symbols("x y z", Value)
    nested = rule("nested", concat([x, y, z]), concat([concat([x, y]), z]))
    frozen = saturate(g, [nested])
    types = {frozen.type_of(e.cls) for nodes in frozen.classes for e in nodes if e.op == "concat"}
    assert types == {Type((2, size, 3), "INT16") for size in (9, 15)}


GRAPHS = (everything, residual, channel_shuffle, transposed_relus)


@pytest.mark.parametrize("build", GRAPHS)
def test_without_rules_the_e_graph_is_the_graph(build) -> None:
    graph = build()
    frozen = saturate(graph, [])
    assert frozen.saturation.stop == "saturated" and frozen.source is graph
    assert set(frozen.handle) == set(graph.live())
    for n, c in frozen.handle.items():
        node = graph.nodes[n]
        assert frozen.types[c] == graph.type(n)
        (e,) = frozen.classes[c]
        assert e.cls == c and e.children == tuple(frozen.handle[i] for i in node.inputs)
        if OPS[node.op].kind == "move":
            shape = graph.nodes[node.inputs[0]].shape
            want = (
                Move.transpose(shape, node.attr("perms")) if node.op == "transpose" else Move.reshape(shape, node.shape)
            )
            assert (e.op, e.move) == ("move", want)
        else:
            assert (e.op, e.attrs, e.move) == (node.op, node.attrs, None)
    assert frozen.n_nodes == len(set(frozen.handle.values()))


@pytest.mark.parametrize("build", GRAPHS)
def test_saturated_classes_have_one_type_each(build) -> None:
    graph = build()
    frozen = saturate(graph, RULES)
    assert frozen.saturation.stop == "saturated"
    for n, c in frozen.handle.items():
        assert frozen.types[c] == graph.type(n)
    for c, nodes in enumerate(frozen.classes):
        for e in nodes:
            assert e.cls == c and all(frozen.types[k] is not None for k in (c, *e.children))
            if e.move:
                assert (e.move.in_shape, e.move.out_shape) == (frozen.types[e.children[0]].shape, frozen.types[c].shape)
        assert len(set(nodes)) == len(nodes)


def test_saturation_is_deterministic() -> None:
    first, second = (saturate(everything(), RULES) for _ in range(2))
    assert first.saturation.matches == second.saturation.matches
    assert sorted(map(len, first.classes)) == sorted(map(len, second.classes))


def test_equal_ops_meet_in_one_class() -> None:
    g = TensorGraph()
    x = g.add_input("x", (2, 3), "INT8")
    a, b = rescale(g, x, "INT32"), rescale(g, x, "INT32")
    finish(g, a, b, rescale(g, x, "INT32", shift=(31,)))
    frozen = saturate(g, [])
    assert frozen.handle[a] == frozen.handle[b] != frozen.handle[g.outputs[2]]


def test_a_deep_graph_loads() -> None:
    g = TensorGraph()
    y = g.add_input("x", (1, 4), "INT8")
    for k in range(2000):
        y = relu(g, y, -128 + k % 90)
    frozen = saturate(finish(g, y), [])
    assert frozen.n_nodes == 2001


def test_budget_is_kept() -> None:
    frozen = saturate(transposed_relus(6), RULES, Budget(passes=1))
    assert frozen.saturation.stop == "pass limit" and len(frozen.saturation.iterations) == 1
    assert all(t is not None for t in (frozen.types[c] for c in frozen.handle.values()))


STOPPED = """
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget
from eqsat.rules import RULES
from tests.graphs import channel_shuffle
found = saturate(channel_shuffle(), RULES, Budget(matches=400))
print(found.saturation.stop, [(i.nodes, i.matches) for i in found.saturation.iterations], [(e.op, e.children) for c in found.classes for e in c])
"""


def test_a_limit_strikes_at_the_same_place_in_every_process() -> None:
    def printed(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", STOPPED], env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = printed("1")
    assert first.startswith("match limit") and first == printed("2")


def test_calls_carry_attributes() -> None:
    node = next(n for n in conv_graph().nodes if n.op == "conv2d")
    call = Call(node.op, node.attrs)
    assert call.attr("stride") == (1, 1) and call.with_attrs(stride=(2, 2)).attr("stride") == (2, 2)
    assert call.with_attrs(stride=(1, 1)) == call
    assert any("no-merge" in line for line in DECLARATIONS)


def test_a_value_of_rank_0_saturates() -> None:
    """A movement to rank 0, as `x[0, 1]` leaves it."""
    g = TensorGraph()
    x = g.add_input("x", (2, 3), "INT8")
    one = g.add("slice", (x,), start=(0, 1), size=(1, 1))
    frozen = saturate(finish(g, relu(g, g.add("reshape", (one,), shape=()))), RULES)
    assert frozen.saturation.stop == "saturated"


def test_a_rule_that_changes_a_type_stops_egglog() -> None:
    with pytest.raises(EngineError):
        saturate(transposed_relus(), [RETYPED])
