"""TensorGraph <-> e-graph.

Constructors (first argument: interned attributes; T: a class):
  Leaf      an input or a constant
  Move      a data movement in normal form (eqsat/tensor/movement.py): every TRANSPOSE and RESHAPE, and any chain of
  them P1 P2 P3  pointwise ops of one, two, three operands
  Ax        ops that act along some axes and are pointwise in the others (slice, pad, reduce, per-channel rescale...)
  Cat       concat along an axis
  M1 M2 M3  multiply-accumulate ops: pools, matmul, convolutions
  Opq       everything that is not modelled, and its further results
Relations that rules use to walk along the operands of a concat:
  element   (vector, i, its i-th operand)
  split     (vector, i, the operands before i, the others)
Facts and postponed operators are declared where rules use them (`fact` and `postponed` of `eqsat/egraph/terms.py`).
`type` gives shape and dtype of a class; two different ones for one class stop egglog: an unsound rule cannot pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eqsat.egraph.attributes import Call, LeafValue, constructor
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget, EgglogRule, Engine, EngineError, ExternTable, Saturation, Watch
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import OPERANDS, Value, every
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import symbols, type_of
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Attrs, GraphError, Type

DECLARATIONS = (
    "(sort T)",
    "(sort TV (Vec T))",
    "(sort TF (UnstableFn (T) T))",
    "(constructor Node (i64) T :unextractable)",
    "(constructor Leaf (i64) T)",
    "(constructor Move (i64 T) T)",
    "(constructor P1 (i64 T) T)",
    "(constructor P2 (i64 T T) T)",
    "(constructor P3 (i64 T T T) T)",
    "(constructor Ax (i64 T) T)",
    "(constructor Cat (i64 TV) T)",
    "(constructor M1 (i64 T) T)",
    "(constructor M2 (i64 T T) T)",
    "(constructor M3 (i64 T T T) T)",
    "(constructor Opq (i64 TV) T)",
    "(function type (T) i64 :no-merge)",
    "(relation position (i64))",
    "(relation element (TV i64 T))",
    "(relation split (TV i64 TV TV))",
)


@extern
def inferred(call: Call, *operands: Type) -> Type | None:
    """The type of an operator's result."""
    try:
        return infer(call.op, call.attrs, operands)
    except GraphError:
        return None


@extern
def moved(m: Move, operand: Type) -> Type | None:
    """The type of what a movement makes."""
    return Type(m.out_shape, operand.dtype) if operand.shape == m.in_shape else None


@extern
def of_leaf(leaf: LeafValue) -> Type:
    """The type of a leaf."""
    return Type(leaf.node.shape, leaf.node.dtype)


def _typing(name: str) -> Rule:
    call = symbols("f", every(name, "operator"))
    operands = [symbols(f"x{i}", Value) for i, _ in enumerate(OPERANDS[name])]
    return rule(f"type-{name}", type_of(call(*operands)), inferred(call, *operands), family="analysis")


_m, _leaf, _x = symbols("m", Move), symbols("leaf", LeafValue), symbols("x", Value)
#: How types come about.
TYPES = (
    *(_typing(name) for name in ("P1", "P2", "P3", "Ax", "M1", "M2", "M3")),
    rule("type-Move", type_of(_m(_x)), moved(_m, _x), family="analysis"),
    rule("type-Leaf", type_of(_leaf), of_leaf(_leaf), family="analysis"),
)
#: How vectors are walked along: the rows that sublists of patterns are made of.
VECTORS = (
    EgglogRule(
        "element-Cat",
        ("(= t (Cat a xs))", "(position i)", "(< i (vec-length xs))"),
        ("(element xs i (vec-get xs i))",),
        analysis=True,
    ),
    EgglogRule(  # only vectors with a concat in them are split
        "split-first",
        ("(= t (Cat a xs))", "(element xs i (Cat a ys))"),
        ("(split xs 0 (vec-empty) xs)",),
        analysis=True,
    ),
    EgglogRule(
        "split-next",
        ("(split xs i p q)", "(< 0 (vec-length q))", "(= j (+ i 1))"),
        ("(split xs j (vec-push p (vec-get q 0)) (vec-remove q 0))",),
        analysis=True,
    ),
)


@dataclass(frozen=True, slots=True)
class ENode:
    """An e-node after freezing: operator ("move" carries a Move), attributes, child classes, class."""

    op: str
    attrs: Attrs
    children: tuple[int, ...]
    cls: int
    move: Move | None = None


@dataclass(slots=True)
class Frozen:
    """A saturated e-graph as plain data. `classes[c]` lists its e-nodes; `types[c]`; `handle[n]`: class of node n of
    the source graph."""

    classes: list[list[ENode]]
    types: list[Type | None]
    handle: dict[int, int]
    saturation: Saturation
    source: TensorGraph = field(repr=False)

    @property
    def n_nodes(self) -> int:
        return sum(map(len, self.classes))

    def type_of(self, cls: int) -> Type:
        """Type of a class that has e-nodes."""
        found = self.types[cls]
        assert found is not None, f"class {cls} has no type"
        return found


def engine_for(rules: Sequence[Rule]) -> Engine:
    """An empty e-graph with these rules and those of the language. Raises EngineError."""
    every = [*TYPES, *rules]
    for forget in dict.fromkeys(r.forget for r in every if r.forget):
        forget()
    declared = declarations(every)
    externs: dict[str, ExternTable] = {e.name: e for r in every for e in r.externs}
    return Engine([*DECLARATIONS, *declared.values()], externs.values(), [*VECTORS, *(r.for_engine() for r in every)])


def declarations(rules: Iterable[Rule]) -> dict[str, str]:
    """{name: command} of what these rules declare: facts and postponed operators. Raises EngineError where two share a
    name."""
    out: dict[str, str] = {}
    for r in rules:
        for name, command in r.declarations.items():
            if out.setdefault(name, command) != command:
                raise EngineError(f"the rule {r.name} declares {name} as {command}, another one as {out[name]}")
    return out


def saturate(
    graph: TensorGraph,
    rules: Sequence[Rule],
    budget: Budget = DEFAULT_BUDGET,
    watch: Watch | None = None,
) -> Frozen:
    """Loads `graph`, runs `rules` within `budget` and freezes the e-graph. `watch` is called after loading and at the
    end, with an empty name, and between as `Engine.saturate` says. Raises EngineError."""
    with engine_for(rules) as engine:
        live = graph.live()
        _load(engine, graph, live)
        if watch:
            watch(engine, "")
        result = engine.saturate(budget, watch)
        if watch:
            watch(engine, "")
        return _freeze(engine, graph, live, result)


def _load(engine: Engine, graph: TensorGraph, live: Sequence[int]) -> None:
    tables: dict[tuple[str, int], list[tuple[int, ...]]] = {}
    types = []
    for n in live:
        node = graph.nodes[n]
        types.append((n, engine.intern.id(graph.type(n))))
        if node.op in ("input", "const"):
            tables.setdefault(("Leaf", 0), []).append((n, engine.intern.id(LeafValue(node))))
            continue
        attribute: Move | Call
        if node.op == "transpose":
            attribute = Move.transpose(graph.nodes[node.inputs[0]].shape, node.attr("perms"))
        elif node.op == "reshape":
            attribute = Move.reshape(graph.nodes[node.inputs[0]].shape, node.shape)
        else:
            attribute = Call(node.op, node.attrs)
        name = constructor(node.op, node.attrs, len(node.inputs))
        tables.setdefault((name, len(node.inputs)), []).append((n, engine.intern.id(attribute), *node.inputs))
    engine.run("(relation load-type (i64 i64))")
    engine.run("(rule ((load-type i s)) ((set (type (Node i)) s)) :ruleset load)")
    engine.load("load-type", types)
    widest = 0  # a flat concat is about as wide as all the concats in it
    for (name, k), rows in tables.items():
        relation = f"load-{name}-{k}"
        xs = [f"x{i}" for i in range(k)]
        terms = " ".join(f"(Node {x})" for x in xs)
        if name in ("Cat", "Opq"):
            widest += k * len(rows)
            terms = f"(vec-of {terms})"
        engine.run(f"(relation {relation} ({' '.join(['i64'] * (k + 2))}))")
        engine.run(f"(rule (({relation} i a {' '.join(xs)})) ((union (Node i) ({name} a {terms}))) :ruleset load)")
        engine.load(relation, rows)
    engine.load("position", [(i,) for i in range(widest)])
    engine.run("(run load 1)")


def _freeze(engine: Engine, graph: TensorGraph, live: Sequence[int], saturation: Saturation) -> Frozen:
    rows = engine.freeze()
    count = 1 + max((c for name, _, c in rows if name != "type"), default=-1)
    count = max([count] + [1 + args[0] for name, args, _ in rows if name == "type"])
    classes: list[list[ENode]] = [[] for _ in range(count)]
    types: list[Type | None] = [None] * count
    handle: dict[int, int] = {}
    wanted = set(live)
    for name, args, c in rows:
        if name == "type":
            types[args[0]] = engine.intern[c]
        elif name == "Node":
            if args[0] in wanted:
                handle[args[0]] = c
        elif name in OPERANDS or name == "Opq":
            value = engine.intern[args[0]]
            children = args[1] if name in ("Cat", "Opq") else tuple(args[1:])
            if isinstance(value, Move):
                classes[c].append(ENode("move", (), children, c, value))
            elif isinstance(value, LeafValue):
                classes[c].append(ENode(value.node.op, value.node.attrs, (), c))
            else:
                classes[c].append(ENode(value.op, value.attrs, children, c))
    for nodes in classes:
        nodes.sort(key=lambda e: (e.op, repr(e.attrs), repr(e.move), e.children))
    return Frozen(classes, types, handle, saturation, graph)
