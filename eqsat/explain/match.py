"""What a rule did at one step: its pattern matched in Python against the rows of that moment.

Only looks up rows that egglog made, so it decides nothing: a match counts where both of its sides were there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eqsat.egraph.engine import Rule
from eqsat.explain.record import CONSTRUCTORS, SORTS, History, TableRow
from eqsat.explain.sexpr import Expr, Form, parse, text

#: A value with its sort: i64, T or TV.
Pair = tuple[str, Any]
Env = dict[str, Pair]


class Unsupported(ValueError):
    """A construct of egglog that is not interpreted here; the message names it."""


@dataclass(frozen=True, slots=True)
class Match:
    """One instance of a rule at a step: the row on the left (None: the rule names only the class) and on the right, both written
    as before the step where they were there; the e-nodes that the pattern saw below the left one, by class; and those that the
    right one is made of. is_operand: the right side is a class that the pattern names, whichever e-node stands for it here."""

    left_class: int
    left: TableRow | None
    right: TableRow
    seen: Mapping[int, TableRow] = field(default_factory=dict)
    made: Mapping[int, TableRow] = field(default_factory=dict)
    is_operand: bool = False


#: egglog's functions on numbers and vectors: the sort of the result and what they do.
_ARITHMETIC: dict[str, tuple[str, Callable[..., Any]]] = {
    "+": ("i64", lambda a, b: a + b),
    "-": ("i64", lambda a, b: a - b),
    "*": ("i64", lambda a, b: a * b),
    "vec-length": ("i64", len),
    "vec-get": ("T", lambda v, i: v[i]),
    "vec-of": ("TV", lambda *xs: xs),
    "vec-empty": ("TV", tuple),
    "vec-push": ("TV", lambda v, x: (*v, x)),
    "vec-append": ("TV", lambda *vs: sum(vs, ())),
    "vec-remove": ("TV", lambda v, i: v[:i] + v[i + 1 :]),
    "vec-set": ("TV", lambda v, i, x: (*v[:i], x, *v[i + 1 :])),
}
_TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
    "!=": lambda a, b: a != b,
}


class Matcher:
    """Finds the matches of rules in a history. Raises Unsupported for a rule that it cannot read."""

    def __init__(self, history: History):
        self.history = history
        self._rules: dict[str, tuple[list[Form], list[Form]]] = {}

    def matches(self, rule: Rule, step: int, cls: int) -> Iterator[Match]:
        """Instances of `rule` at `step` that put something into class `cls` (as it is called before that step)."""
        if rule.name not in self._rules:
            calls = [f"({extern} {args} {outs})" for outs, extern, args in rule.calls]
            self._rules[rule.name] = parse(" ".join([*rule.body, *calls])), parse(" ".join(rule.head))
        body, head = self._rules[rule.name]
        for union in (a for a in head if a[0] == "union"):
            start: Env = {union[1]: ("T", cls)} if isinstance(union[1], str) else {}
            for env, rows in self._solve(body, start, (), step - 1):
                found = self._instance(head, union, env, rows, step, cls)
                if found:
                    yield found

    def _instance(
        self, head: list[Form], union: Form, env: Env, rows: tuple[TableRow, ...], step: int, cls: int
    ) -> Match | None:
        """What the actions of a rule made for a match of its pattern, None if `union` did not put it into `cls` at `step`."""
        h, env = self.history, dict(env)
        made: dict[int, TableRow] = {}
        for _, name, expr in (a for a in head if a[0] == "let"):
            value = self._make(expr, env, step, made)
            if value is None:
                return None
            env[name] = value
        sides = self._make_all(union[1:], env, step, made)
        if sides is None or {h.cls(value, step) for _, value in sides} != {h.cls(cls, step)}:
            return None
        right = sides[1][1]
        seen = [r for r in rows if r[0] in CONSTRUCTORS]
        top = next((r for r in seen if r[2] == cls), None)
        result = made.get(right) or h.origin_at(right, step - 1)
        below = {r[2]: r for r in reversed(seen) if r is not top}
        return Match(cls, top, result, below, {k: r for k, r in made.items() if r is not result}, right not in made)

    # -- the left side ----------------------------------------------------------------------------

    def _solve(
        self, facts: list[Form], env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        if not facts:
            yield env, rows
            return
        chosen = min(facts, key=lambda f: self._effort(f, env))
        rest = [f for f in facts if f is not chosen]
        for e, r in self._fact(chosen, env, rows, step):
            yield from self._solve(rest, e, r, step)

    def _effort(self, fact: Form, env: Env) -> float:
        """Rows to look at: 0 for a test of what is known."""
        name, *args = fact
        if name in _TESTS:
            return 0 if all(self._value(a, env) for a in args) else float("inf")
        if name == "=":
            known = [self._value(a, env) for a in args]
            if all(known):
                return 0
            efforts = [
                0 if isinstance(a, str) else len(self._candidates(a, other, env)) if a[0] in SORTS else float("inf")
                for a, v, other in zip(args, known, reversed(known))
                if not v
            ]
            return max(efforts)
        return len(self._candidates(fact, None, env))

    def _fact(
        self, fact: Form, env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        """Environments in which a fact of a pattern holds."""
        name, *args = fact
        if name in _TESTS:
            values = self._values(args, env)
            if values is None:
                raise Unsupported(f"{text(fact)} tests what is not known")
            if _TESTS[name](*(v for _, v in values)):
                yield env, rows
        elif name == "=":
            yield from self._equal(args[0], args[1], env, rows, step)
        else:
            for e, r, _ in self._call(fact, None, env, rows, step):
                yield e, r

    def _equal(
        self, a: Expr, b: Expr, env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        x, y = self._value(a, env), self._value(b, env)
        if x and y:
            if x == y:
                yield env, rows
        elif not x and isinstance(a, tuple) and a[0] in SORTS:
            yield from self._call_is(a, b, y, env, rows, step)
        elif isinstance(b, tuple) and b[0] in SORTS:
            yield from self._call_is(b, a, x, env, rows, step)
        elif x and isinstance(b, str):
            yield {**env, b: x}, rows
        elif y and isinstance(a, str):
            yield {**env, a: y}, rows
        else:
            raise Unsupported(f"neither side of (= {text(a)} {text(b)}) is known")

    def _call_is(
        self, call: Form, other: Expr, value: Pair | None, env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        """Rows of `call` whose result is `other`, which is `value` if that is known."""
        for e, r, out in self._call(call, value, env, rows, step):
            if out is None:
                raise Unsupported(f"{text(call)} has no value")
            yield from self._unify(other, out, e, r, step)

    def _call(
        self, call: Form, out: Pair | None, env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...], Pair | None]]:
        """Rows of a constructor, function or relation that fit."""
        name, *args = call
        kinds = SORTS.get(name, ("i64",) * len(args))
        for row in self._candidates(call, out, env):
            if not self.history.alive(row, step) or (out is not None and row[2] != out[1]):
                continue
            states = [(env, (*rows, row))]
            for kind, expr, value in zip(kinds, args, row[1]):
                states = [s for e, r in states for s in self._unify(expr, (kind, value), e, r, step)]
            for e, r in states:
                yield e, r, (kinds[-1], row[2]) if len(kinds) > len(args) else None

    def _unify(
        self, expr: Expr, value: Pair, env: Env, rows: tuple[TableRow, ...], step: int
    ) -> Iterator[tuple[Env, tuple[TableRow, ...]]]:
        known = self._value(expr, env)
        if known:
            if known == value:
                yield env, rows
        elif isinstance(expr, str):
            yield {**env, expr: value}, rows
        elif expr[0] in SORTS:
            for e, r, _ in self._call(expr, value, env, rows, step):
                yield e, r
        else:
            raise Unsupported(f"{text(expr)} where a pattern is expected")

    def _candidates(self, call: Form, out: Pair | None, env: Env) -> list[TableRow]:
        h, (name, *args) = self.history, call
        best = h.by_class.get((name, out[1]), []) if out is not None else h.by_name.get(name, [])
        for i, a in enumerate(args):
            if (known := self._value(a, env)) is not None:
                rows = h.by_argument.get((name, i, known[1]), [])
                best = rows if len(rows) < len(best) else best
        return best

    def _value(self, expr: Expr, env: Env) -> Pair | None:
        """The value of an expression without patterns, None if it is not known yet."""
        if isinstance(expr, str):
            return env.get(expr) or (("i64", int(expr)) if re.fullmatch(r"-?\d+", expr) else None)
        if expr[0] not in _ARITHMETIC:
            return None
        args = self._values(expr[1:], env)
        kind, function = _ARITHMETIC[expr[0]]
        if args is None:
            return None
        try:
            return kind, function(*(a for _, a in args))
        except IndexError:
            return None

    def _values(self, exprs: Sequence[Expr], env: Env) -> list[Pair] | None:
        """The values of expressions, None if one is not known yet."""
        values = [v for e in exprs if (v := self._value(e, env)) is not None]
        return values if len(values) == len(exprs) else None

    # -- the right side ---------------------------------------------------------------------------

    def _make(self, expr: Expr, env: Env, step: int, made: dict[int, TableRow]) -> Pair | None:
        """The value of an expression that the step made, None if a row of it is not there; its rows go into `made` by class."""
        if isinstance(expr, str) or not expr:
            return self._value(expr, env)
        name, *args = expr
        if name == "unstable-vec-map":
            return self._map(args[0], args[1], env, step, made)
        values = self._make_all(args, env, step, made)
        if values is None:
            return None
        if name in SORTS:
            return self._row(name, tuple(v for _, v in values), step, made)
        if name not in _ARITHMETIC:
            raise Unsupported(f"egglog's {name}")
        kind, function = _ARITHMETIC[name]
        return kind, function(*(v for _, v in values))

    def _make_all(self, exprs: Sequence[Expr], env: Env, step: int, made: dict[int, TableRow]) -> list[Pair] | None:
        values = [v for e in exprs if (v := self._make(e, env, step, made)) is not None]
        return values if len(values) == len(exprs) else None

    def _map(self, call: Form, vector: Expr, env: Env, step: int, made: dict[int, TableRow]) -> Pair | None:
        """A vector of what a constructor, with its first operands fixed, makes of each element."""
        _, function, *first = call
        fixed = self._make_all(first, env, step, made)
        operands = self._make(vector, env, step, made)
        if fixed is None or operands is None:
            return None
        begin = tuple(v for _, v in fixed)
        rows = [self._row(function.strip('"'), (*begin, x), step, made) for x in operands[1]]
        found = [r[1] for r in rows if r is not None]
        return ("TV", tuple(found)) if len(found) == len(rows) else None

    def _row(self, name: str, args: tuple[Any, ...], step: int, made: dict[int, TableRow]) -> Pair | None:
        h = self.history
        row = h.find(name, args, step - 1)
        if row is None:
            there = h.find(name, h.at((name, args, 0), step)[1], step)
            if there is None:
                return None
            row = (name, args, there[2])
        made[row[2]] = row
        return "T", row[2]
