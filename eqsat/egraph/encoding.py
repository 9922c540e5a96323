"""TensorGraph <-> e-graph.

Constructors (first argument: interned attributes; T: a class):
  Leaf      an input or a constant
  Move      a data movement in normal form (eqsat/tensor/movement.py): every TRANSPOSE and RESHAPE, and any chain of them
  P1 P2 P3  pointwise ops of one, two, three operands
  Ax        ops that act along some axes and are pointwise in the others (slice, pad, reduce, per-channel rescale...)
  Cat       concat along an axis
  M1 M2 M3  multiply-accumulate ops: pools, matmul, convolutions
  Opq       everything that is not modelled, and its further results
  Resized   a Move adjusted to its operand's size along one axis; only used by rules on concat, never extracted
  Cut       a slice adjusted the same way; never extracted either
Relations, that rules use to walk along the operands of a concat (`eqsat/rules/slicing.py`):
  element   (vector, i, its i-th operand)
  span      (concat, vector, i, its i-th operand, where that lies in the result)
  split     (vector, i, the operands before i, the others)
  stripped  (vector, f, type, n) -> xs: the first n operands are f x, x of that type; one such xs, where there are several
Facts about classes, one per class or pair. There may be several curves from an x to a t that differ outside x's range, and endlessly
many where a class holds a function of itself; the first is kept, so saturation ends:
  curve     (x, t) -> c: t = c(x) in every element, x INT8 (`eqsat/rules/quantized.py`)
  scalar    t -> c: t is a constant of one element, as a curve
  known     t -> k: t is the constant k (`eqsat/rules/channels.py`)
  chain     (x, t) -> c: t = c(x) in every element, c given per channel, x INT8 (`eqsat/rules/tolerant.py`)
`type` gives shape and dtype of a class; two different ones for one class stop egglog: an unsound rule cannot pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from eqsat.egraph.attributes import Call, LeafValue, constructor
from eqsat.egraph.engine import DEFAULT_BUDGET, Budget, Engine, Extern, Rule, Saturation, Watch
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
    "(constructor Resized (i64 i64 T) T)",
    "(constructor Cut (i64 i64 T) T)",
    "(function type (T) i64 :no-merge)",
    "(relation position (i64))",
    "(relation element (TV i64 T))",
    "(relation span (i64 TV i64 T i64))",
    "(relation split (TV i64 TV TV))",
    "(function stripped (TV i64 i64 i64) TV :merge old)",
    *(
        f"(function {fact} ({classes}) i64 :merge (min old new))"
        for fact, classes in (("curve", "T T"), ("scalar", "T"), ("known", "T"), ("chain", "T T"))
    ),
)
#: Constructors that stand for an e-node that a rule has still to make.
HELPERS = ("Resized", "Cut")


def _infer(call: Call, *types: Type):
    try:
        return (infer(call.op, call.attrs, types),)
    except GraphError:
        return None


def _move_type(m: Move, t: Type):
    return (Type(m.out_shape, t.dtype),) if t.shape == m.in_shape else None


EXTERNS = [
    Extern("infer1", 2, 1, _infer),
    Extern("infer2", 3, 1, _infer),
    Extern("infer3", 4, 1, _infer),
    Extern("move_type", 2, 1, _move_type),
    Extern("leaf_type", 1, 1, lambda v: (Type(v.node.shape, v.node.dtype),)),
]


def _typing(name: str, operands: str, extern: str) -> Rule:
    xs = operands.split()
    body = (f"(= t ({name} a {operands}))", *(f"(= s{i} (type {x}))" for i, x in enumerate(xs)))
    args = " ".join(["a", *(f"s{i}" for i in range(len(xs)))])
    return Rule(
        f"type-{name}",
        "analysis",
        f"type of {name}",
        body,
        ("(set (type t) r)",),
        (("r", extern, args),),
        analysis=True,
    )


ANALYSES = [
    _typing("P1", "x", "infer1"),
    _typing("P2", "x y", "infer2"),
    _typing("P3", "x y z", "infer3"),
    _typing("Ax", "x", "infer1"),
    _typing("M1", "x", "infer1"),
    _typing("M2", "x y", "infer2"),
    _typing("M3", "x y z", "infer3"),
    _typing("Move", "x", "move_type"),
    Rule(
        "type-Leaf",
        "analysis",
        "type of a leaf",
        ("(= t (Leaf a))",),
        ("(set (type t) r)",),
        (("r", "leaf_type", "a"),),
        analysis=True,
    ),
    *(
        Rule(
            f"element-{c}",
            "analysis",
            "elements of a vector",
            (f"(= t ({c} a xs))", "(position i)", "(< i (vec-length xs))"),
            ("(element xs i (vec-get xs i))",),
            analysis=True,
        )
        for c in ("Cat",)
    ),
]


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
    """A saturated e-graph as plain data. `classes[c]` lists its e-nodes; `types[c]`; `handle[n]`: class of node n of the source graph."""

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


def saturate(
    graph: TensorGraph,
    rules: Sequence[Rule],
    externs: Sequence[Extern],
    budget: Budget = DEFAULT_BUDGET,
    watch: Watch | None = None,
) -> Frozen:
    """Loads `graph`, runs `rules` within `budget` and freezes the e-graph. `watch` is called after loading and at the end, with an empty
    name, and between as `Engine.saturate` says. Raises EngineError."""
    with Engine(DECLARATIONS, [*EXTERNS, *externs], [*ANALYSES, *rules]) as engine:
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
        elif name not in HELPERS:
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
