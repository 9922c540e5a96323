"""Encodes a TensorGraph as an e-graph, saturates it, and decodes the e-graph as plain data.

These are the constructors of e-nodes.
The first argument of each is the number of its interned attribute, the others are e-classes.

  Leaf      an input or a constant
  Move      a data movement in normal form (`eqsat/tensor/movement.py`):
            every TRANSPOSE and RESHAPE, and any chain of them
  P1 P2 P3  pointwise operators of one, two and three operands; P1 also those that act along some
            axes and are pointwise along the others: SLICE, PAD, reductions and the like
  Cat       CONCAT along an axis
  M1 M2 M3  multiply-accumulate operators (pooling, MATMUL, convolutions), GATHER and SCATTER
  Opq       operators that are not modelled, and ITEM, which selects one of their results

Relations let rules walk along the operands of a vector.

  position  (i), for each operand of the longest vector
  element   (vector, i, the operand at i)

The rules that use facts and postponed operators declare them (`fact`, `postpone` of `terms.py`).
The function `type` gives the shape and dtype of a class.
egglog stops if a class gets two different types, so no rule joins values of different types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from eqsat.egraph.engine import DEFAULT_BUDGET, Budget, EgglogRule, Engine, EngineError, ExternTable, Saturation, Watch
from eqsat.egraph.kinds import OPERANDS, Call, Concat, LeafValue, Value, Values, constructor, every
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import element, extern, joined, length, symbols, type_of
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Attrs, GraphError, Type

DECLARATIONS = (
    "(sort T)",
    "(sort TV (Vec T))",
    "(sort TF (UnstableFn (T) T))",
    "(constructor Node (i64) T :unextractable)",
    *(f"(constructor {name} ({' '.join(['i64', *(k.sort for k in kinds)])}) T)" for name, kinds in OPERANDS.items()),
    "(constructor Opq (i64 TV) T)",
    "(function type (T) i64 :no-merge)",
    "(function joined (i64 TV i64) i64 :no-merge)",
    "(relation position (i64))",
    "(relation element (TV i64 T))",
)


@extern
def infer_type(call: Call, *operands: Type) -> Type | None:
    """Returns the type of an operator's result, or None if it does not accept the operands."""
    try:
        return infer(call.op, call.attrs, operands)
    except GraphError:
        return None


@extern
def move_type(m: Move, operand: Type) -> Type | None:
    """Returns the type of a movement's result, or None if the operand has another shape."""
    return Type(m.out_shape, operand.dtype) if operand.shape == m.in_shape else None


@extern
def of_leaf(leaf: LeafValue) -> Type:
    """Returns the type of a leaf."""
    return leaf.type


def _typing(name: str) -> Rule:
    """Returns the rule that infers the types of a constructor's e-nodes."""
    call = symbols("f", every(name, "operator"))
    operands = [symbols(f"x{i}", Value) for i, _ in enumerate(OPERANDS[name])]
    return rule(f"type-{name}", type_of(call(*operands)), infer_type(call, *operands), family="analysis")


_m, _leaf, _x = symbols("m", Move), symbols("leaf", LeafValue), symbols("x", Value)
_concat, _xs, _i = symbols("concat", Concat), symbols("xs", Values), symbols("i", int)
#: Rules that infer the type of a class from one of its e-nodes, that of a CONCAT operand by operand.
TYPES = (
    *(_typing(name) for name in ("P1", "P2", "P3", "M1", "M2", "M3")),
    rule("type-Move", type_of(_m(_x)), move_type(_m, _x), family="analysis"),
    rule("type-Leaf", type_of(_leaf), of_leaf(_leaf), family="analysis"),
    rule("joined-first", joined(_concat, _xs, 1), _x, where=_concat(_xs[_x, ...]), family="analysis"),
    rule(
        "joined-next",
        joined(_concat, _xs, _i + 1),
        infer_type(_concat, joined(_concat, _xs, _i), _x),
        where=element(_xs, _i, _x),
        family="analysis",
    ),
    rule("type-Cat", type_of(_concat(_xs)), joined(_concat, _xs, length(_xs)), family="analysis"),
)
#: Rules that make the rows of `element`, from which patterns match sublists.
VECTORS = (
    EgglogRule(
        "position-next",
        ("(= t (Cat a xs))", "(position i)", "(= j (+ i 1))", "(< j (vec-length xs))"),
        ("(position j)",),
        analysis=True,
    ),
    EgglogRule(
        "element-Cat",
        ("(= t (Cat a xs))", "(position i)", "(< i (vec-length xs))"),
        ("(element xs i (vec-get xs i))",),
        analysis=True,
    ),
)


@dataclass(frozen=True, slots=True)
class ENode:
    """An e-node of a frozen e-graph.

    op: the operator's name; "move" for a data movement.
    attrs: the operator's attributes; () for a data movement, which is in `move`.
    children: the classes of the operands.
    cls: the class of the e-node.
    """

    op: str
    attrs: Attrs
    children: tuple[int, ...]
    cls: int
    move: Move | None = None


@dataclass(slots=True)
class Frozen:
    """A saturated e-graph as plain data.

    classes: the e-nodes of each class.
    types: the type of each class; None only for classes without e-nodes.
    handle: {node of the source graph: its class}.
    source: the graph that was loaded.
    """

    classes: list[list[ENode]]
    types: list[Type | None]
    handle: dict[int, int]
    saturation: Saturation
    source: TensorGraph = field(repr=False)

    @property
    def n_nodes(self) -> int:
        """Number of e-nodes."""
        return sum(map(len, self.classes))

    def type_of(self, cls: int) -> Type:
        """Returns the type of a class that has e-nodes."""
        found = self.types[cls]
        assert found is not None, f"class {cls} has no type"
        return found


def engine_for(rules: Sequence[Rule], logged: bool = False) -> Engine:
    """Returns an empty e-graph with rules and with those that infer types and walk along vectors. Raises EngineError.

    First calls `forget` of each rule that has it. logged: whether rewrites log their instances.
    """
    every = [*TYPES, *rules]
    for forget in dict.fromkeys(r.forget for r in every if r.forget):
        forget()
    declared = declarations(every)
    externs: dict[str, ExternTable] = {d.extern.name: d.extern for r in every for d in r.compiled.query.demands}
    compiled = [*VECTORS, *(r.for_engine(logged) for r in every)]
    return Engine([*DECLARATIONS, *declared.values()], externs.values(), compiled)


def declarations(rules: Iterable[Rule]) -> dict[str, str]:
    """Returns {name: command} of the facts and postponed operators that rules declare.

    Raises EngineError if rules declare a name differently.
    """
    out: dict[str, str] = {}
    for r in rules:
        for name, command in r.compiled.declarations.items():
            if out.setdefault(name, command) != command:
                raise EngineError(f"the rule {r.name} declares {name} as {command}, another one as {out[name]}")
    return out


def saturate(
    graph: TensorGraph,
    rules: Sequence[Rule],
    budget: Budget = DEFAULT_BUDGET,
    watch: Watch | None = None,
) -> Frozen:
    """Loads a graph, runs rules within a budget, and returns the frozen e-graph. Raises EngineError.

    watch: as in `Engine.saturate`.
    """
    with engine_for(rules) as engine:
        live = graph.live()
        load(engine, graph, live)
        return _freeze(engine, graph, live, engine.saturate(budget, watch))


def load(engine: Engine, graph: TensorGraph, live: Sequence[int]) -> None:
    """Loads the live nodes and their types.

    The class of node n also contains the e-node `Node(n)`.
    Rows are loaded in bulk, by constructor and number of operands.
    """
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
        name = constructor(node.op, len(node.inputs))
        tables.setdefault((name, len(node.inputs)), []).append((n, engine.intern.id(attribute), *node.inputs))
    engine.run("(relation load-type (i64 i64))")
    engine.run("(rule ((load-type i s)) ((set (type (Node i)) s)) :ruleset load)")
    engine.load("load-type", types)
    for (name, k), rows in tables.items():
        relation = f"load-{name}-{k}"
        xs = [f"x{i}" for i in range(k)]
        terms = " ".join(f"(Node {x})" for x in xs)
        if name in ("Cat", "Opq"):
            terms = f"(vec-of {terms})"
        engine.run(f"(relation {relation} ({' '.join(['i64'] * (k + 2))}))")
        engine.run(f"(rule (({relation} i a {' '.join(xs)})) ((union (Node i) ({name} a {terms}))) :ruleset load)")
        engine.load(relation, rows)
    engine.run("(position 0)")
    engine.run("(run load 1)")


def _freeze(engine: Engine, graph: TensorGraph, live: Sequence[int], saturation: Saturation) -> Frozen:
    """Returns the e-graph as plain data, with the e-nodes of each class in a fixed order."""
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
