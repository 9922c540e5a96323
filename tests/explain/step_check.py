"""Checks one step of a proof with egglog itself: that rule alone, on the classes around its left side as they were before the step."""

from __future__ import annotations

from eqsat.egraph.attributes import LeafValue
from eqsat.egraph.encoding import ANALYSES, DECLARATIONS
from eqsat.egraph.encoding import EXTERNS as TYPING
from eqsat.egraph.engine import Budget, Engine, EngineError
from eqsat.explain.chains import Link, operands
from eqsat.explain.record import CONSTRUCTORS, SORTS, History, Row
from eqsat.rules import EXTERNS, RULES
from eqsat.tensor.graph import Node

_DEPTH = 4
_ALONE = 1_000_000


def holds(history: History, link: Link) -> bool:
    """Whether the rule of `link` makes its right side equal to its left e-node, which gets a class of its own here."""
    before = link.step - 1
    left = link.left[2]
    rows = {r for r in history.life if r[0] in CONSTRUCTORS and history.alive(r, before)}
    by_class: dict[int, list[Row]] = {}
    for r in rows:
        by_class.setdefault(r[2], []).append(r)
    made = dict(link.match.made) if link.match else {}
    inside = {left, *(c for r in (link.right, *made.values()) for c in operands(r) if c in by_class)}
    border = set(inside)
    for _ in range(_DEPTH):
        border = {c for b in border for r in by_class.get(b, ()) for c in operands(r)} - inside
        inside |= border
    with Engine(
        DECLARATIONS, [*TYPING, *EXTERNS], [*ANALYSES, *(r for r in RULES if r.analysis), history.rules[link.rule]]
    ) as engine:
        values: dict[int, int] = {}

        def value(i: int) -> int:
            if i not in values:
                values[i] = engine.intern.id(history.values[i])
            return values[i]

        def term(row: Row, below: dict[int, Row]) -> str:
            def operand(c: int) -> str:
                known(c)
                return (
                    term(below[c], {k: r for k, r in below.items() if k != c})
                    if c in below and c not in by_class
                    else f"(Node {c})"
                )

            parts = []
            for kind, a in zip(SORTS[row[0]], row[1]):
                parts.append(
                    str(value(a))
                    if kind == "i64"
                    else operand(a)
                    if kind == "T"
                    else f"(vec-of {' '.join(map(operand, a))})"
                )
            return f"({row[0]} {' '.join(parts)})"

        def known(c: int) -> None:
            if c in declared or c not in by_class:
                return
            declared.add(c)
            t = history.type_of(c)
            if c not in inside or all(r == link.left for r in by_class[c]):
                leaf = Node("input", (), (("name", f"e{c}"),), t.shape, t.dtype)
                engine.run(f"(union (Node {c}) (Leaf {engine.intern.id(LeafValue(leaf))}))")
            if t is not None:
                engine.run(f"(set (type (Node {c})) {engine.intern.id(t)})")

        declared: set[int] = set()
        for c in sorted(inside):
            for row in by_class.get(c, ()):
                engine.run(f"(union (Node {_ALONE if row == link.left else c}) {term(row, {})})")
            known(c)
        engine.run(f"(set (type (Node {_ALONE})) {engine.intern.id(history.type_of(left))})")
        engine.load("position", [(i,) for i in range(16)])
        if link.match and link.match.is_operand:
            right = itself = f"(Node {link.right[2]})"
        else:
            right = term(link.right, made)
            itself = right.replace(f"(Node {left})", f"(Node {_ALONE})")  # where the right side is made of the left one

        def equal() -> bool:
            return any(_true(engine, f"(check (= (Node {_ALONE}) {goal}))") for goal in dict.fromkeys((right, itself)))

        if equal():
            return False  # it is so without the rule
        engine.saturate(Budget(nodes=20_000, seconds=20, passes=2))
        return equal()


def _true(engine: Engine, check: str) -> bool:
    try:
        engine.run(check)
    except EngineError:
        return False
    return True
