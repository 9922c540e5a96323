"""Matches of rules at a step: their queries matched in Python against the rows of that step.

Matching only looks up rows that egglog made, so it cannot add any equality.
A match counts only if both of its sides were there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.egraph.query import PRIMITIVES, Atom, Expr, Query, Slot
from eqsat.egraph.rule import Rule
from eqsat.explain.record import History, TableRow, is_enode

#: Values of the slots of a query: interned values, classes, vectors of classes, indices of them.
Env = dict[Slot, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """One instance of a rule at a step.

    left: the row on the left, None if the rule names only the class.
    right: the row on the right.
    Both are written as before the step if they existed then.
    seen: {class: e-node} that the pattern saw below the left one.
    made: {class: e-node} of which the right one consists.
    is_operand: whether the right side is a class that the pattern names.
    Then `right` is any e-node of it.
    """

    left: TableRow | None
    right: TableRow
    seen: Mapping[int, TableRow] = field(default_factory=dict)
    made: Mapping[int, TableRow] = field(default_factory=dict)
    is_operand: bool = False


#: egglog's functions on numbers and vectors.
_COMPUTED: dict[str, Callable[..., Any]] = {
    "+": lambda a, b: a + b,
    "vec-length": len,
    "vec-of": lambda *xs: xs,
    "vec-empty": tuple,
    "vec-append": lambda *vs: sum(vs, ()),
    "vec-remove": lambda v, i: v[:i] + v[i + 1 :],
    "vec-set": lambda v, i, x: (*v[:i], x, *v[i + 1 :]),
}


class Matcher:
    """The search for matches of rules in a history."""

    def __init__(self, history: History):
        self.history = history

    def matches(self, rule: Rule, step: int, cls: int) -> Iterator[Match]:
        """Yields the instances of `rule` at `step` that put an e-node into class `cls`.

        cls: the class as numbered before that step.
        """
        query = rule.compiled.query
        answers = (Atom(d.extern.name, (*d.arguments, *d.results), None) for d in query.demands)
        for _, left, _ in (a for a in query.actions if a[0] == "union"):
            assert not isinstance(left, tuple)
            for env, rows in self._solve([*query.atoms, *answers], {left: cls}, (), step - 1):
                if found := self._instance(query, env, rows, step, cls):
                    yield found

    def _instance(self, query: Query, env: Env, rows: tuple[TableRow, ...], step: int, cls: int) -> Match | None:
        """Returns the match for these rows, None if the actions did not put its right side into `cls` at `step`."""
        h, env = self.history, dict(env)
        made: dict[int, TableRow] = {}
        for _, slot, expr in (a for a in query.actions if a[0] == "let"):
            assert not isinstance(slot, tuple)
            env[slot] = self._make(expr, env, step, made)
            if env[slot] is None:
                return None
        (right,) = (self._make(a[2], env, step, made) for a in query.actions if a[0] == "union")
        if right is None or h.cls(right, step) != h.cls(cls, step):
            return None
        seen = [r for r in rows if is_enode(r[0])]
        top = next((r for r in seen if r[2] == cls), None)
        result = made.get(right) or h.origin_at(right, step - 1)
        below = {r[2]: r for r in reversed(seen) if r is not top}
        return Match(top, result, below, {k: r for k, r in made.items() if r is not result}, right not in made)

    # -- the left side ----------------------------------------------------------------------------

    def _solve(
        self, atoms: Sequence[Atom], env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        """Yields the slots' values for which all atoms have rows, with these rows."""
        if not atoms:
            yield env, rows
            return
        chosen = min(atoms, key=lambda a: self._effort(a, env))
        rest = [a for a in atoms if a is not chosen]
        if chosen.function in PRIMITIVES:
            value = _COMPUTED[chosen.function](*(_value(s, env) for s in chosen.arguments))
            found = _unified(env, (chosen.result,), (value,))
            if found is not None:
                yield from self._solve(rest, found, rows, step)
            return
        for row in self._candidates(chosen, env):
            if self.history.alive(row, step):
                found = _unified(env, (*chosen.arguments, chosen.result), (*row[1], row[2]))
                if found is not None:
                    yield from self._solve(rest, found, (*rows, row), step)

    def _effort(self, atom: Atom, env: Env) -> float:
        """Returns the number of rows to examine for an atom, inf if it cannot be computed yet."""
        if atom.function not in PRIMITIVES:
            return len(self._candidates(atom, env))
        return 0 if all(_value(s, env) is not None for s in atom.arguments) else float("inf")

    def _candidates(self, atom: Atom, env: Env) -> list[TableRow]:
        h, name = self.history, atom.function
        result = None if atom.result is None else _value(atom.result, env)
        best = h.by_name.get(name, []) if result is None else h.by_class.get((name, result), [])
        for i, s in enumerate(atom.arguments):
            if (known := _value(s, env)) is not None:
                rows = h.by_argument.get((name, i, known), [])
                best = rows if len(rows) < len(best) else best
        return best

    # -- the right side ---------------------------------------------------------------------------

    def _make(self, expr: Expr, env: Env, step: int, made: dict[int, TableRow]) -> Any:
        """Returns the value of an expression that the step made, None if one of its rows is missing.

        Its rows are added to `made`, by class.
        """
        if not isinstance(expr, tuple):
            return _value(expr, env)
        name, *args = expr
        assert isinstance(name, str)
        if name == "unstable-vec-map":
            return self._map(args[0], args[1], env, step, made)
        values = [self._make(a, env, step, made) for a in args]
        if None in values:
            return None
        return _COMPUTED[name](*values) if name in _COMPUTED else self._row(name, tuple(values), step, made)

    def _map(self, call: Expr, vector: Expr, env: Env, step: int, made: dict[int, TableRow]) -> tuple[int, ...] | None:
        """Returns the classes of a constructor for each element of a vector.

        The constructor's first operands are fixed.
        Returns None if one of its rows is missing.
        """
        assert isinstance(call, tuple)
        _, function, *first = call
        fixed = tuple(self._make(a, env, step, made) for a in first)
        operands = self._make(vector, env, step, made)
        if None in fixed or operands is None:
            return None
        rows = [self._row(str(function).strip('"'), (*fixed, x), step, made) for x in operands]
        found = tuple(r for r in rows if r is not None)
        return found if len(found) == len(rows) else None

    def _row(self, name: str, args: tuple[Any, ...], step: int, made: dict[int, TableRow]) -> int | None:
        """Returns the class of an e-node from before the step, or made by it; None if there is none."""
        h = self.history
        row = h.find(name, args, step - 1)
        if row is None:
            there = h.find(name, h.at((name, args, 0), step)[1], step)
            if there is None:
                return None
            row = (name, args, there[2])
        cls: int = row[2]
        made[cls] = row
        return cls


def _value(slot: Slot, env: Env) -> Any:
    """Returns the value of a slot, None if it is not known yet."""
    return slot if isinstance(slot, int) else env.get(slot)


def _unified(env: Env, slots: Sequence[Slot | None], values: Sequence[Any]) -> Env | None:
    """Returns the environment with these values in these slots, None if they contradict it."""
    out = dict(env)
    for slot, value in zip(slots, values):
        if slot is None:
            continue
        if isinstance(slot, int) or slot in out:
            if _value(slot, out) != value:
                return None
        else:
            out[slot] = value
    return out
