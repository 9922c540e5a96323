"""What a rule did at one step: its query matched in Python against the rows of that moment.

Only looks up rows that egglog made, so it decides nothing: a match counts where both of its sides were there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.egraph.query import PRIMITIVES, Atom, Expr, Query, Slot
from eqsat.egraph.rule import Rule
from eqsat.explain.record import History, TableRow, is_enode

#: What the slots of a query hold: interned values, classes, vectors of classes, places in them.
Env = dict[Slot, Any]


@dataclass(frozen=True, slots=True)
class Match:
    """One instance of a rule at a step: the row on the left (None: the rule names only the class) and on the right,
    both written as before the step where they were there; the e-nodes that the pattern saw below the left one, by
    class; and those that the right one is made of. is_operand: the right side is a class that the pattern names,
    whichever e-node stands for it here."""

    left_class: int
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
    """Finds the matches of rules in a history."""

    def __init__(self, history: History):
        self.history = history

    def matches(self, rule: Rule, step: int, cls: int) -> Iterator[Match]:
        """Instances of `rule` at `step` that put something into class `cls` (as it is called before that step)."""
        query = rule.compiled.query
        answers = (Atom(d.extern.name, (*d.arguments, *d.results), None) for d in query.demands)
        for _, left, _ in (a for a in query.actions if a[0] == "union"):
            assert not isinstance(left, tuple)
            for env, rows in self._solve([*query.atoms, *answers], {left: cls}, (), step - 1):
                found = self._instance(query, env, rows, step, cls)
                if found:
                    yield found

    def _instance(self, query: Query, env: Env, rows: tuple[TableRow, ...], step: int, cls: int) -> Match | None:
        """What the actions of a rule made for a match of its pattern, None if they did not put it into `cls` at
        `step`."""
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
        return Match(cls, top, result, below, {k: r for k, r in made.items() if r is not result}, right not in made)

    # -- the left side ----------------------------------------------------------------------------

    def _solve(
        self, atoms: Sequence[Atom], env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        """What the slots hold where all atoms are there, with the rows; the atom with the fewest candidates comes
        first."""
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
        """Rows to look at."""
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
        """The value of an expression that the step made, None if a row of it is not there; its rows go into `made` by
        class."""
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
        """A vector of what a constructor, with its first operands fixed, makes of each element."""
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
        """The class of an e-node that was there before the step or was made by it."""
        h = self.history
        row = h.find(name, args, step - 1)
        if row is None:
            there = h.find(name, h.at((name, args, 0), step)[1], step)
            if there is None:
                return None
            row = (name, args, there[2])
        made[row[2]] = row
        cls: int = row[2]
        return cls


def _value(slot: Slot, env: Env) -> Any:
    """What a slot holds, None if that is not known yet."""
    return slot if isinstance(slot, int) else env.get(slot)


def _unified(env: Env, slots: Sequence[Slot | None], values: Sequence[Any]) -> Env | None:
    """The environment with these values in these slots, None if one holds another."""
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
