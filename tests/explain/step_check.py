"""Checks one step of a proof with egglog itself: that rule alone, on the classes around its left side as they were
before the step."""

from __future__ import annotations

from typing import Any

from eqsat.egraph.attributes import LeafValue
from eqsat.egraph.encoding import declarations, engine_for
from eqsat.egraph.engine import Budget, Engine, EngineError
from eqsat.explain.joins import Link
from eqsat.explain.record import History, TableRow, is_enode
from eqsat.rules import RULES
from eqsat.tensor.graph import Node

_DEPTH = 4
_ALONE = 1_000_000


def holds(history: History, link: Link) -> bool:
    """Whether the rule of `link` makes its right side equal to its left e-node, which gets a class of its own here."""
    rules = [*(r for r in RULES if r.analysis), history.rules[link.rule]]
    with engine_for(rules) as engine:
        for name, command in declarations(history.rules.values()).items():
            if name not in declarations(rules):
                engine.run(command)
        return _ProofStep(history, link, engine).holds()


class _ProofStep:
    def __init__(self, history: History, link: Link, engine: Engine):
        self.history, self.link, self.engine = history, link, engine
        self.made = dict(link.match.made) if link.match else {}
        self.by_class: dict[int, list[TableRow]] = {}
        for r in history.life:
            if is_enode(r[0]) and history.alive(r, link.step - 1):
                self.by_class.setdefault(r[2], []).append(r)
        self.inside = self._inside()
        self.declared: set[int] = set()
        self.values: dict[int, int] = {}

    def _inside(self) -> set[int]:
        """The classes around the left side, to a depth."""
        rows = (self.link.right, *self.made.values())
        inside = {self.link.left[2], *(c for r in rows for c in self.history.operands(r) if c in self.by_class)}
        border = set(inside)
        for _ in range(_DEPTH):
            border = {c for b in border for r in self.by_class.get(b, ()) for c in self.history.operands(r)} - inside
            inside |= border
        return inside

    def holds(self) -> bool:
        left = self.link.left[2]
        for c in sorted(self.inside):
            for row in self.by_class.get(c, ()):
                name = _ALONE if row == self.link.left else c
                self.engine.run(f"(union (Node {name}) {self.term(row, {})})")
            self.declare(c)
        self.engine.run(f"(set (type (Node {_ALONE})) {self.engine.intern.id(self.history.type_of(left))})")
        self.engine.load("position", [(i,) for i in range(16)])
        if self.link.match and self.link.match.is_operand:
            goals = [f"(Node {self.link.right[2]})"]
        else:
            right = self.term(self.link.right, self.made)
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
        t = self.history.type_of(c)
        if c not in self.inside or all(r == self.link.left for r in self.by_class[c]):
            leaf = Node("input", (), (("name", f"e{c}"),), t.shape, t.dtype)
            self.engine.run(f"(union (Node {c}) (Leaf {self.engine.intern.id(LeafValue(leaf))}))")
        self.engine.run(f"(set (type (Node {c})) {self.engine.intern.id(t)})")

    def value(self, i: int) -> int:
        if i not in self.values:
            self.values[i] = self.engine.intern.id(self.history.values[i])
        return self.values[i]

    def term(self, row: TableRow, below: dict[int, TableRow]) -> str:
        """A row as a term, rows of `below` written out where their class was not there before."""
        return f"({row[0]} {' '.join(self.argument(k, a, below) for k, a in zip(self.history.sorts[row[0]], row[1]))})"

    def argument(self, kind: str, a: Any, below: dict[int, TableRow]) -> str:
        if kind == "i64":
            return str(self.value(a))
        if kind == "TV":
            return f"(vec-of {' '.join(self.argument('T', c, below) for c in a)})"
        self.declare(a)
        if a in below and a not in self.by_class:
            return self.term(below[a], {k: r for k, r in below.items() if k != a})
        return f"(Node {a})"


def _true(engine: Engine, check: str) -> bool:
    try:
        engine.run(check)
    except EngineError:
        return False
    return True
