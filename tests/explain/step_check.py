"""Checks one step of a proof with egglog: that rule alone, on the classes around its left side before the step."""

from __future__ import annotations

from itertools import islice
from unittest.mock import patch

from eqsat.egraph.encoding import declarations, engine_for
from eqsat.egraph.engine import Budget, Engine, EngineError
from eqsat.egraph.kinds import LeafValue
from eqsat.egraph.log import Instance, Row
from eqsat.explain.record import Closure, Link, Record
from eqsat.rules import RULES
from eqsat.tensor.graph import Node, TensorGraph

_DEPTH = 4
_ALONE = 1_000_000
BY_NAME = {r.name: r for r in RULES}


class DatedClosure(Closure):
    """A closure that also knows how many terms there were before each equality."""

    def __init__(self) -> None:
        super().__init__()
        self.before: dict[int, int] = {}

    def apply(self, instance: Instance) -> None:
        self.before[len(self.equalities)] = len(self.terms)
        super().apply(instance)

    def terms_before(self, time: int) -> dict[int, Row]:
        count = self.before[max(t for t in self.before if t <= time)]
        return dict(islice(self.terms.items(), count))


def dated_record(graph: TensorGraph, budget: Budget) -> Record:
    with patch("eqsat.explain.record.Closure", DatedClosure):
        return Record(graph, RULES, budget)


def holds(record: Record, link: Link) -> bool:
    """Whether the rule of `link` makes its right side equal to its left e-node, which gets a class of its own here."""
    rules = [*(r for r in RULES if r.analysis), BY_NAME[link.instance.rule]]
    with engine_for(rules) as engine:
        for name, command in declarations(RULES).items():
            if name not in declarations(rules):
                engine.run(command)
        return _ProofStep(record, link, engine).holds()


class _ProofStep:
    def __init__(self, record: Record, link: Link, engine: Engine):
        self.record, self.engine, self.is_operand = record, engine, link.instance.is_operand
        closure, time = record.closure, link.time
        assert isinstance(closure, DatedClosure)
        self.left, self.right = closure.at(link.instance.left, time), closure.at(link.instance.right, time)
        made = (closure.at(r, time) for r in link.instance.made)
        self.made = {r.cls: r for r in made}
        self.by_class: dict[int, dict[Row, None]] = {}
        for row in closure.terms_before(time).values():
            row = closure.at(row, time)
            self.by_class.setdefault(row.cls, {})[row] = None
        self.inside = self._inside()
        self.declared: set[int] = set()
        self.values: dict[int, int] = {}

    def _inside(self) -> set[int]:
        """The classes around the left side, to a depth."""
        rows = (self.right, *self.made.values())
        inside = {self.left.cls, *(c for r in rows for c in r.operands if c in self.by_class)}
        border = set(inside)
        for _ in range(_DEPTH):
            border = {c for b in border for r in self.by_class.get(b, ()) for c in r.operands} - inside
            inside |= border
        return inside

    def holds(self) -> bool:
        left = self.left.cls
        for c in sorted(self.inside):
            for row in self.by_class.get(c, ()):
                name = _ALONE if row == self.left else c
                self.engine.run(f"(union (Node {name}) {self.term(row, {})})")
            self.declare(c)
        self.engine.run(f"(set (type (Node {_ALONE})) {self.engine.intern.id(self.record.type_of(left))})")
        self.engine.load("position", [(i,) for i in range(16)])
        if self.is_operand:
            goals = [f"(Node {self.right.cls})"]
        else:
            right = self.term(self.right, self.made)
            # also where the right side is made of the left one
            goals = [right, right.replace(f"(Node {left})", f"(Node {_ALONE})")]
        if self.equal(goals):
            return False  # it is so without the rule
        self.engine.saturate(Budget(nodes=20_000, seconds=20, passes=2))
        return self.equal(goals)

    def equal(self, goals: list[str]) -> bool:
        return any(_true(self.engine, f"(check (= (Node {_ALONE}) {goal}))") for goal in dict.fromkeys(goals))

    def declare(self, c: int) -> None:
        """Gives a class its type, and a leaf if nothing else is known of it here."""
        if c in self.declared or c not in self.by_class:
            return
        self.declared.add(c)
        t = self.record.type_of(c)
        if c not in self.inside or all(r == self.left for r in self.by_class[c]):
            leaf = Node("input", (), (("name", f"e{c}"),), t.shape, t.dtype)
            self.engine.run(f"(union (Node {c}) (Leaf {self.engine.intern.id(LeafValue(leaf))}))")
        self.engine.run(f"(set (type (Node {c})) {self.engine.intern.id(t)})")

    def value(self, i: int) -> int:
        if i not in self.values:
            self.values[i] = self.engine.intern.id(self.record.values[i])
        return self.values[i]

    def term(self, row: Row, below: dict[int, Row]) -> str:
        """A row as a term, rows of `below` written out where their class was not there before."""
        operands = " ".join(self.operand(c, below) for c in row.operands)
        vector = f"(vec-of {operands})" if row.function in ("Cat", "Opq") else operands
        return f"({row.function} {' '.join(str(self.value(a)) for a in row.attributes)} {vector})"

    def operand(self, c: int, below: dict[int, Row]) -> str:
        self.declare(c)
        if c in below and c not in self.by_class:
            return self.term(below[c], {k: r for k, r in below.items() if k != c})
        return f"(Node {c})"


def _true(engine: Engine, check: str) -> bool:
    try:
        engine.run(check)
    except EngineError:
        return False
    return True
