"""Rules that log their instances, for explanations.

Such a rule first only makes its e-nodes and adds a row to its relation.
Once the row was read, the other actions follow, and delete it. So it has the classes from before the rule joined any.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from eqsat.egraph.kinds import OPERANDS
from eqsat.egraph.pattern import Atom, Expr, Query, Slot, slots, text


class Row(NamedTuple):
    """An e-node and its class. attributes: numbers of interned values."""

    function: str
    attributes: tuple[int, ...]
    operands: tuple[int, ...]
    cls: int


class Instance(NamedTuple):
    """An instance of a rule, in which one e-node equals another one.

    left: the e-node of the left side; if that is a variable, the e-node that made its class.
    right: the same of the right side.
    seen: the other e-nodes that the pattern matched.
    made: the other e-nodes of the right side, some of which may have existed.
    is_operand: whether the right side is a variable.
    """

    rule: str
    left: Row
    right: Row
    seen: tuple[Row, ...]
    made: tuple[Row, ...]
    is_operand: bool


def is_enode(function: str) -> bool:
    """Tells whether the rows of a function are e-nodes; handles of the source graph are not."""
    return function[0].isupper() and function != "Node"


def row_of(function: str, arguments: Sequence[Any], cls: int) -> Row:
    """Returns an e-node with these arguments."""
    count = _attributes(function, arguments)
    operands = arguments[count:]
    if operands and isinstance(operands[0], tuple):
        (operands,) = operands
    return Row(function, tuple(arguments[:count]), tuple(operands), cls)


def _attributes(function: str, arguments: Sequence[Any]) -> int:
    """Returns the number of attributes; a postponed operator has any number, and one operand."""
    return 1 if function in OPERANDS or function == "Opq" else len(arguments) - 1


class Log:
    """The log of one rule.

    query: the rule's, with its row as only action.
    then: the commands that declare the relation and the ruleset of the rest.
    """

    def __init__(self, rule: str, query: Query):
        self._rule = rule
        self._seen = [a for a in query.atoms if is_enode(a.function)]
        self._made: list[Atom] = []
        self._lets: list[tuple[Expr, ...]] = []
        #: Vectors of operands and results of a constructor that makes an e-node for each.
        self._mapped: list[Expr] = []
        rest: list[tuple[Expr, ...]] = []
        for action in query.actions:
            match action:
                case ("let", str(slot), what):
                    self._make(what, slot)
                case ("union", root, what):
                    self._root, self._result = root, self._make(what)
                    rest.append(("union", root, self._result))
                case _:
                    rest.append(action)
        self._sorts = self._columns(rest)
        row = (f"log.{rule}", *self._sorts)
        self.query = replace(query, actions=(*self._lets, row))
        self.then = (
            f"(relation {row[0]} ({' '.join(self._sorts.values())}))",
            f"(ruleset then.{rule})",
            f"(rule ({text(row)}) ({' '.join(map(text, rest))} (delete {text(row)})) :ruleset then.{rule})",
        )

    def _make(self, e: Expr, slot: str = "") -> Slot:
        """Adds the actions that give a slot the value of an expression, and returns it."""
        if not isinstance(e, tuple):
            return e
        e = tuple(p if isinstance(p, tuple) and p[0] == "unstable-fn" else self._make(p) for p in e)
        slot = slot or f"?.made{len(self._lets)}_"
        self._lets.append(("let", slot, e))
        match e:
            case ("unstable-vec-map", ("unstable-fn", str(function), *fixed), vector):
                self._made.append(Atom(function.strip('"'), tuple(map(self._make, (*fixed, vector))), slot))
                self._mapped += (vector, slot)
            case (str(function), *arguments) if is_enode(function):
                self._made.append(Atom(function, tuple(map(self._make, arguments)), slot))
        return slot

    def _columns(self, rest: Sequence[tuple[Expr, ...]]) -> dict[Any, str]:
        """Returns {slot: its sort} of the e-nodes and of the other actions."""
        sorts: dict[Any, str] = {s: "i64" for s in slots(tuple(rest)) if str(s)[0] == "?"}
        sorts |= {self._root: "T", self._result: "T"}
        for a in (*self._seen, *self._made):
            count = _attributes(a.function, a.arguments)
            sorts |= dict.fromkeys(a.arguments[:count], "i64")
            sorts |= dict.fromkeys(a.arguments[count:], "TV" if a.function == "Cat" else "T")
            sorts[a.result] = "T"
        return sorts | dict.fromkeys(self._mapped, "TV")

    def instance(self, values: Sequence[Any], terms: Mapping[int, Row]) -> Instance:
        """Returns the instance in a row of the relation. terms: the e-nodes that made the classes so far."""
        of = dict(zip(self._sorts, values, strict=True))
        seen, made = list(_rows(self._seen, of)), list(_rows(self._made, of))
        left = next((r for slot, r in seen if slot == self._root), None)
        right = next((r for slot, r in made if slot == self._result), None)
        return Instance(
            self._rule,
            left or terms[of[self._root]],
            right or terms[of[self._result]],
            tuple(r for _, r in seen if r is not left),
            tuple(r for _, r in made if r is not right),
            right is None,
        )


def _rows(atoms: Iterable[Atom], of: Mapping[Any, Any]) -> Iterator[tuple[Slot | None, Row]]:
    """Yields the e-nodes of atoms with their slots; `of`: values by slot."""
    for a in atoms:
        *fixed, last = (of[s] for s in a.arguments)
        cls = of[a.result]
        if isinstance(cls, tuple):
            yield from ((a.result, row_of(a.function, (*fixed, x), c)) for x, c in zip(last, cls, strict=True))
        else:
            yield a.result, row_of(a.function, (*fixed, last), cls)
