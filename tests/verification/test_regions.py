"""A wrong value inside is found whatever hides it later on, and what is right is never refused for inputs that cannot
occur."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from eqsat.choice import choice
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Attrs
from eqsat.verification.regions import Correspondence, Seen, compare_regions, computed_classes, correspondence
from extraction import tree_greedy
from tests.graphs import clamp, conv, finish, relu, rescale, reshape, transpose
from tests.random_graphs import random_graph
from tests.random_prices import Bytes


def seen(graph: TensorGraph) -> Seen:
    """Limits of INT32 values on random inputs."""
    wide = [n for n in graph.live() if graph.nodes[n].dtype == "INT32" and graph.nodes[n].inputs]
    rng = np.random.default_rng(1)
    runs = [
        replace(graph, outputs=wide).evaluate(
            [rng.integers(-128, 128, graph.nodes[i].shape).astype(np.int8) for i in graph.inputs]
        )
        for _ in range(4)
    ]
    rows = {n: np.concatenate([r[k].reshape(-1, r[k].shape[-1]) for r in runs]) for k, n in enumerate(wide)}
    limits = {n: (v.min(0), v.max(0)) for n, v in rows.items()}
    return limits.get


def differs(source: TensorGraph, found: TensorGraph, at: Mapping[int, int | tuple[int, Move]]) -> str:
    """at: {node that was found: node of the source, or that and a Move}."""
    same = Correspondence(
        {n: n for n in source.live()}, {n: s if isinstance(s, tuple) else (s, None) for n, s in at.items()}
    )
    return compare_regions(source, found, same, seen(source)).reason


def mean(g: TensorGraph, x: int) -> int:
    """Over 128 x 128."""
    y = g.add("cast", [x], dtype="INT32")
    for axis in (1, 2):
        y = g.add("reduce_sum", [y], axis=axis)
    return rescale(g, y, "INT8", shift=(44,))


def chain(*clamps: tuple[int, int]) -> tuple[TensorGraph, list[int]]:
    g = TensorGraph()
    nodes = [g.add_input("x", (1, 128, 128, 2), "INT8")]
    for low, high in clamps:
        nodes.append(clamp(g, nodes[-1], low, high))
    nodes.append(mean(g, nodes[-1]))
    return finish(g, nodes[-1]), nodes


def test_one_code_behind_a_mean_is_found() -> None:
    source, s = chain((-100, 90), (-90, 100))
    for limits, wrong in (((-90, 90), False), ((-90, 91), True), ((-91, 90), True), ((-100, 90), True)):
        found, n = chain(limits)
        reason = differs(source, found, {n[0]: s[0], n[1]: s[2], n[2]: s[3]})
        assert bool(reason) == wrong and (not wrong or f"n{s[2]} (clamp)" in reason)


def test_outputs_are_compared_without_any_claim() -> None:
    source, _ = chain((-100, 90))
    assert not differs(source, chain((-100, 90))[0], {0: 0})
    assert differs(source, chain((-100, 91))[0], {0: 0})


def selecting(op: str) -> tuple[TensorGraph, list[int]]:
    """select(x > y, x, y), or what is said to be the same."""
    g = TensorGraph()
    x, y = g.add_input("x", (1, 4, 4, 4), "INT8"), g.add_input("y", (1, 4, 4, 4), "INT8")
    if op == "select":
        wide = [g.add("cast", [v], dtype="INT32") for v in (x, y)]
        z = g.add("select", [g.add("greater", wide), x, y])
    else:
        z = g.add(op, [x, y], nan_mode=1)
    return finish(g, relu(g, z, -100)), [x, y, z]


@pytest.mark.parametrize(("op", "wrong"), [("maximum", False), ("minimum", True)])
def test_inputs_are_free_of_each_other(op: str, wrong: bool) -> None:
    (source, s), (found, n) = selecting("select"), selecting(op)
    assert bool(differs(source, found, dict(zip(n, s, strict=True)))) == wrong


def test_values_that_cannot_occur_refuse_nothing() -> None:
    """clamp(clamp(x)) = clamp(x), where the graph that was found has the inner clamp as well: with both free they
    differ."""
    g = TensorGraph()
    x = g.add_input("x", (1, 4), "INT8")
    inner = clamp(g, x, -10, 10)
    outer = clamp(g, inner, -20, 5)
    source = finish(g, inner, outer)
    for high, wrong in ((5, False), (6, True)):
        h = TensorGraph()
        given = h.add_input("x", (1, 4), "INT8")
        a, b = clamp(h, given, -10, 10), clamp(h, given, -10, high)
        assert bool(differs(source, finish(h, a, b), {given: x, a: inner, b: outer})) == wrong
    h = TensorGraph()
    given = h.add_input("x", (1, 4), "INT8")
    a = clamp(h, given, -10, 10)
    b = clamp(h, a, -128, 5)  # the same after the inner clamp, which reaches -10 at least
    assert not differs(source, finish(h, a, b), {given: x, a: inner, b: outer})


def test_a_redundant_operator_whose_class_is_its_operands() -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4), "INT8")
    inner = clamp(g, x, -10, 10)
    source = finish(g, relu(g, clamp(g, inner, -11, 10), 3))
    h = TensorGraph()
    given = h.add_input("x", (1, 4), "INT8")
    a = clamp(h, given, -10, 10)
    found = finish(h, relu(h, a, 3))
    same = Correspondence({0: 0, 1: 1, 2: 1, 3: 3}, {0: (0, None), 1: (1, None), 2: (3, None)})
    assert compare_regions(source, found, same, seen(source)).reason == ""
    wrong = replace(source, nodes=list(source.nodes))
    wrong.nodes[2] = replace(source.nodes[2], attrs=clamp_attrs(-9, 10))
    assert "n2" in compare_regions(wrong, found, same, seen(wrong)).reason


def clamp_attrs(low: int, high: int) -> Attrs:
    g = TensorGraph()
    return g.nodes[clamp(g, g.add_input("x", (1, 4), "INT8"), low, high)].attrs


def test_moved_values_are_known_by_their_move() -> None:
    def graph(first: bool, low: int, perm: tuple[int, ...] = (0, 3, 1, 2)) -> tuple[TensorGraph, int]:
        g = TensorGraph()
        x = conv(g, g.add_input("x", (1, 5, 5, 4), "INT8"), 5)
        y = relu(g, transpose(g, x, *perm) if first else x, low)
        return finish(g, y if first else transpose(g, y, *perm)), y

    (source, s), (found, n) = graph(True, -50), graph(False, -50)
    inverse = Move.transpose((1, 5, 5, 5), (0, 3, 1, 2)).inverse()
    convs = {k: k for k in range(s - 1)}
    assert not differs(source, found, {**convs, n: (s, inverse)})
    assert differs(source, found, {**convs, n: (s, inverse.inverse())})
    assert differs(source, graph(False, -49)[0], {**convs, n: (s, inverse)})
    assert differs(source, graph(False, -50, (0, 3, 2, 1))[0], {**convs, n: (s, inverse)})


@pytest.mark.parametrize("wrong", [None, 27])
def test_a_value_and_its_moves_are_one_value_at_a_boundary(wrong: int | None) -> None:
    """At each of 30 boundaries one graph reads what the other reads moved: drawn by themselves they would differ at all
    of them."""
    source, found = TensorGraph(), TensorGraph()
    x = source.add_input("x", (1, 4, 4, 2), "INT8")
    at = {found.add_input("x", (1, 4, 4, 2), "INT8"): x}
    y, out = reshape(found, 0, 1, 16, 2), []
    for k in range(30):
        x = clamp(source, x, -100 + k, 100 - k)
        y = clamp(found, y, -100 + k, 100 - k - (k == wrong))
        out.append(reshape(source, x, 1, 16, 2))
        at[y] = out[-1]
    reason = differs(finish(source, *out), finish(found, *list(at)[1:]), at)
    assert reason == "" if wrong is None else f"n{out[wrong]} (reshape)" in reason


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_no_sound_extraction_is_refused(seed: int) -> None:
    """With random prices, so that all kinds of e-nodes are met."""
    graph = random_graph(seed)
    frozen = saturate(graph, RULES, Budget(nodes=1200, seconds=10))
    rng = np.random.default_rng(seed)
    choices = choice.build(frozen, Bytes(Target.of("ethos-u85-256"), rng))
    for _ in range(2):
        plan = replace(choices.graph, cost=rng.exponential(1.0, choices.graph.n_nodes), pair_costs={})
        found, origin = choices.tensor_graph(tree_greedy.extract(plan).choice)
        classes = computed_classes(choices, found, origin)
        assert len(classes) > 0
        outcome = compare_regions(graph, found, correspondence(frozen, found, classes), seen(graph))
        assert outcome.reason == "" and outcome.same + outcome.compared > 0


def test_all_codes_of_what_is_read_in_two_places_are_not_all_there_is() -> None:
    """Where x and x moved are compared, no tensor of one value shows which is which."""

    def graph(swapped: bool) -> tuple[TensorGraph, list[int]]:
        g = TensorGraph()
        x = g.add_input("x", (1, 4, 4), "INT8")
        y = transpose(g, x, 0, 2, 1)
        wide = [g.add("cast", [v], dtype="INT32") for v in (x, y)]
        z = g.add("select", [g.add("greater", wide), *((y, x) if swapped else (x, y))])
        return finish(g, z), [x]

    assert not differs(graph(False)[0], graph(False)[0], {0: 0})
    assert differs(graph(False)[0], graph(True)[0], {0: 0})
