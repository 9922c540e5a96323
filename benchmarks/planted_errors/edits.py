"""Edits like the errors of a rule: one node of a graph is replaced by something similar."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import numpy as np

from eqsat.choice import choice
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.kinds import Axial, Binary, Call, Clamp, Pad, Rescale, Slice, Ternary, Unary, Value
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import extern, symbols
from eqsat.rules import RULES
from eqsat.target import Target
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND, SINGLE_ROUND
from eqsat.tensor.types import Attrs, DType, GraphError, attrs_of
from extraction import ExtractionError, tree_greedy
from tests.planted import same_type
from tests.random_prices import Bytes

#: Adds the replacement of a node to a graph and returns it.
#: The function that it takes gives the number of an old node in the graph.
Build = Callable[[TensorGraph, Callable[[int], int]], int]


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a graph.

    kind: what is wrong, in words.
    node: the node that is replaced.
    build: adds its replacement.
    """

    kind: str
    node: int
    build: Build


def applied(graph: TensorGraph, edit: Edit) -> TensorGraph | None:
    """Returns the graph with an edit.

    None if the edit does not fit, because types differ or the node stays the same.
    """
    n, node = edit.node, graph.nodes[edit.node]
    try:
        out = graph.rewrite({n: lambda out: edit.build(out.graph, out.number.__getitem__)})
    except (GraphError, KeyError):
        return None
    new, at = out.graph, out.number
    same = replace(node, inputs=tuple(at[i] for i in node.inputs)) == new.nodes[at[n]]
    return None if same or new.type(at[n]) != graph.type(n) else new


def edits(graph: TensorGraph) -> Iterator[Edit]:
    """Yields all edits of a graph."""
    for n in graph.live():
        node = graph.nodes[n]
        found = _attributes(graph, node), _operands(graph, node), _around(graph, node), _constants(node)
        yield from (Edit(kind, n, build) for kind, build in chain(*found))


def _with(node: Node, **values: object) -> Build:
    attrs = attrs_of({**dict(node.attrs), **values})
    return lambda g, at: g.add_with(node.op, [at(i) for i in node.inputs], attrs)


def _bumped(values: tuple[int, ...], k: int, by: int) -> tuple[int, ...]:
    return (*values[:k], values[k] + by, *values[k + 1 :])


#: What is wrong if an attribute is off, by its name.
_OFF = {
    "multiplier": "wrong scale by one unit",
    "shift": "wrong shift",
    "start": "wrong slice start",
    "value": "wrong pad value",
}


def _numbers(graph: TensorGraph, node: Node, by: int) -> Iterator[tuple[str, Build]]:
    """Yields edits that change one number among the attributes."""
    attrs = dict(node.attrs)
    for name in ("in_zp", "out_zp"):
        narrow = graph.nodes[node.inputs[0]].dtype if name == "in_zp" and node.inputs else node.dtype
        if name in attrs and narrow in ("INT8", "INT16") and node.op != "matmul":  # The zero point of INT32 is 0.
            yield f"wrong zero point ({name})", _with(node, **{name: _bumped(attrs[name], 0, by)})
    for name, what in _OFF.items():
        if name in attrs and node.op != "const":
            for k in range(min(len(attrs[name]), 4)):
                if name != "shift" or attrs[name][k] + by >= 0:
                    yield what, _with(node, **{name: _bumped(attrs[name], k, by)})


def _limits(node: Node, by: int) -> Iterator[tuple[str, Build]]:
    """Yields edits of a table or of the limits of a clamp."""
    attrs = dict(node.attrs)
    if node.op == "table":
        table = attrs["table"]
        for k in (0, len(table) // 2, len(table) - 1):
            yield "wrong table entry", _with(node, table=_bumped(table, k, by))
        yield "table off by one", _with(node, table=table[by:] + table[:by])
    if node.op == "clamp":
        t = DType.of(node.dtype)
        for name in ("min_val", "max_val"):
            limit = int.from_bytes(attrs[name], "little", signed=True) + by
            if t.limits[0] <= limit <= t.limits[1]:
                yield "wrong clamp limit", _with(node, **{name: t.to_bytes(limit)})


def _axes(node: Node) -> Iterator[tuple[str, Build]]:
    """Yields edits with the right numbers in the wrong places."""
    attrs = dict(node.attrs)
    for name in {"pad", "pads"} & attrs.keys():
        p = attrs[name]
        for k in range(0, len(p), 2):
            yield "wrong pad", _with(node, **{name: (*p[:k], p[k + 1], p[k], *p[k + 2 :])})
            yield "wrong pad", _with(node, **{name: _bumped(_bumped(p, k, 1), k + 1, -1)})
    for axis in range(len(node.shape)) if "axis" in attrs else ():
        yield "wrong axis", _with(node, axis=axis)
    perms = attrs.get("perms", ())
    for k in range(len(perms) - 1):
        yield "wrong permutation", _with(node, perms=(*perms[:k], perms[k + 1], perms[k], *perms[k + 2 :]))


def _attributes(graph: TensorGraph, node: Node) -> Iterator[tuple[str, Build]]:
    """Yields edits of one attribute."""
    attrs = dict(node.attrs)
    for by in (1, -1):
        yield from _numbers(graph, node, by)
        yield from _limits(node, by)
    yield from _axes(node)
    if "rounding_mode" in attrs:
        other = DOUBLE_ROUND if attrs["rounding_mode"] == SINGLE_ROUND else SINGLE_ROUND
        yield "double rounding", _with(node, rounding_mode=other)
        if len(attrs["multiplier"]) > 1:
            yield "scales of other channels", _with(node, multiplier=attrs["multiplier"][::-1])


#: Operators that are similar to others.
_SWAPS = {"maximum": "minimum", "greater": "greater_equal", "add": "sub", "reduce_max": "reduce_min"}


def _operands(graph: TensorGraph, node: Node) -> Iterator[tuple[str, Build]]:
    """Yields edits with wrong operands or with another operator."""
    ins = node.inputs
    if len(ins) > 1 and node.op not in ("conv2d", "depthwise_conv2d", "transpose_conv2d"):
        order = (ins[0], *ins[:0:-1]) if node.op == "select" else ins[::-1]
        kind = "swapped arms of a select" if node.op == "select" else "swapped operands"
        yield kind, lambda g, at: g.add_with(node.op, [at(k) for k in order], node.attrs)
    if node.op in _SWAPS:
        yield "another operator", lambda g, at: g.add_with(_SWAPS[node.op], [at(i) for i in ins], node.attrs)
    for i in ins[1:] if node.op == "select" else ins:
        if graph.nodes[i].shape == node.shape and graph.nodes[i].dtype == node.dtype:
            yield f"dropped {node.op}", lambda g, at, i=i: at(i)  # type: ignore[misc]


def _around(graph: TensorGraph, node: Node) -> Iterator[tuple[str, Build]]:
    """Yields edits that join or exchange two operators in a row, as a rule without its side condition would."""
    if len(node.inputs) != 1 or len((inner := graph.nodes[node.inputs[0]]).inputs) != 1:
        return
    (x,) = inner.inputs

    def alone(g: TensorGraph, at: Callable[[int], int]) -> int:
        return g.add_with(node.op, [at(x)], node.attrs)

    if node.op == inner.op == "rescale":
        product = merged(inner.attrs, node.attrs)
        if product is not None:
            yield "merged RESCALEs", lambda g, at: g.add_with("rescale", [at(x)], product)
    if node.op == inner.op == "clamp":
        yield "outer clamp only", alone
        yield "inner clamp only", lambda g, at: g.add_with("clamp", [at(x)], inner.attrs)
    if graph.nodes[x].dtype == inner.dtype == node.dtype and node.op != inner.op:
        yield f"{node.op} before {inner.op}", lambda g, at: g.add_with(inner.op, [alone(g, at)], inner.attrs)
    if node.op == "slice" and inner.op in ("pad", "reverse"):
        yield f"slice of the operand of a {inner.op}", alone


def merged(first: Attrs, second: Attrs) -> Attrs | None:
    """Returns one RESCALE by the product of the scales, without the clipping and rounding between."""
    a, b = dict(first), dict(second)
    if len(a["multiplier"]) > 1 or len(b["multiplier"]) > 1 or a["input_unsigned"] or b["output_unsigned"]:
        return None
    scales = (math.ldexp(c["multiplier"][0], -c["shift"][0]) for c in (a, b))
    mantissa, exponent = math.frexp(math.prod(scales))
    multiplier, shift = round(mantissa * (1 << 31)), 31 - exponent
    if multiplier == 1 << 31:
        multiplier, shift = multiplier >> 1, shift - 1
    if not 2 <= shift <= 62:
        return None
    scale = {"multiplier": (multiplier,), "shift": (shift,), "scale32": True}
    return attrs_of({**b, **scale, "in_zp": a["in_zp"], "input_unsigned": False})


def _constants(node: Node) -> Iterator[tuple[str, Build]]:
    """Yields edits that change one element of a constant by one."""
    if node.op != "const" or node.dtype not in ("INT8", "INT32") or not node.shape:
        return
    for k in (0, -1):
        data = np.array(node.attr("value").data)
        limits = DType.of(node.dtype).limits
        data.flat[k] += 1 if data.flat[k] < limits[1] else -1
        yield "wrong constant", lambda g, at, data=data: g.add_const(data, node.dtype)  # type: ignore[misc]


#: The budget of saturation with a wrong rule.
_BUDGET = Budget(nodes=1500, seconds=10.0)
#: Extractions per rule, each by other random prices, so that wrong e-nodes are chosen too.
_PLANS = 3


@extern
def one_less(s: Slice) -> Slice | None:
    """Returns a slice that begins one element earlier, None if it begins at the first."""
    start = s.attr("start")
    k = next((k for k, v in enumerate(start) if v), None)
    return None if k is None else s.with_attrs(start=(*start[:k], start[k] - 1, *start[k + 1 :]))


@extern
def other_value(p: Pad) -> Pad:
    """Returns a pad with another value."""
    return p.with_attrs(value=(p.attr("value")[0] + 1,))


@extern
def other_zero_point(r: Rescale) -> Rescale:
    """Returns a RESCALE with another zero point of its input."""
    return r.with_attrs(in_zp=(r.attr("in_zp")[0] + 1,))


@extern
def product(outer: Rescale, inner: Rescale) -> Rescale | None:
    """Returns one RESCALE by both scales, without the rounding and clipping between; None if there is none."""
    attrs = merged(inner.attrs, outer.attrs)
    return None if attrs is None else Call(outer.op, attrs)


f, f2 = symbols("f f2", Unary)
g, h, a, m = symbols("g", Binary), symbols("h", Ternary), symbols("a", Axial), symbols("m", Move)
c, c2 = symbols("c c2", Clamp)
r, r2 = symbols("r r2", Rescale)
s, p = symbols("s", Slice), symbols("p", Pad)
x, y, z = symbols("x y z", Value)
_rule = partial(rule, family="planted")

#: The near-miss rules.
WRONG = [
    _rule("unary-vanishes", f(x), x, where=same_type(f(x), x)),
    _rule("unaries-commute", f(f2(x)), f2(f(x)), where=same_type(f2(x), x)),
    _rule("binary-commutes", g(x, y), g(y, x)),
    _rule("select-vanishes", h(x, y, z), y, where=same_type(h(x, y, z), y)),
    _rule("select-swapped", h(x, y, z), h(x, z, y)),
    _rule("outer-clamp-only", c(c2(x)), c(x)),
    _rule("inner-clamp-only", c(c2(x)), c2(x)),
    _rule("clamp-before-rescale", c(r(x)), r(c(x)), where=same_type(r(x), x)),
    _rule("rescales-merge", r(r2(x)), product(r, r2)(x)),
    _rule("slice-begins-early", s(x), one_less(s)(x)),
    _rule("pad-with-another-value", p(x), other_value(p)(x)),
    _rule("another-zero-point", r(x), other_zero_point(r)(x)),
    _rule("move-vanishes", m(x), x, where=same_type(m(x), x)),
    _rule("axial-keeps-its-axis", a(m(x)), m(a(x)), where=same_type(m(x), x)),
    _rule("axial-vanishes", a(x), x, where=same_type(a(x), x)),
]


def graphs_with(wrong: Rule, source: TensorGraph, seed: int) -> Iterator[TensorGraph]:
    """Yields graphs of an e-graph that was also saturated with a wrong rule.

    Extraction by random prices finds them.
    """
    try:
        frozen = saturate(source, [wrong, *RULES], _BUDGET)
        rng = np.random.default_rng(seed)
        choices = choice.build(frozen, Bytes(Target.of("ethos-u85-256"), rng))
    except (EngineError, GraphError):  # The e-graph itself notices two types or two constants in one class.
        return
    for _ in range(_PLANS):
        plan = replace(choices.graph, cost=rng.exponential(1.0, choices.graph.n_nodes), pair_costs={})
        try:
            found, _ = choices.tensor_graph(tree_greedy.extract(plan).choice)
        except (ExtractionError, GraphError):
            return
        yield found
