"""The history of every row of an e-graph: a saturation repeated, with its rows read after each rule.

egglog gives no proofs to Python.
Classes keep their number as long as they exist.
So two readings differ exactly by the effects of one rule.
Rows are added, rows are removed, and a class becomes part of another.
A row (constructor, arguments, class) has the numbers that were valid when it was added.
`at` rewrites it for a later step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eqsat.egraph.encoding import DECLARATIONS, TYPES, Frozen, declarations, saturate
from eqsat.egraph.engine import Budget, Engine, Interner
from eqsat.egraph.rule import Rule
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Type

#: (function, arguments, result): arguments are interned values, classes or tuples of classes.
TableRow = tuple[str, tuple[Any, ...], Any]
#: A step after all others.
FOREVER = 1 << 60
#: Suffix of the second run of a rule that deletes, in a recorded saturation.
#: Its first run only unites classes, so that each removed class can be followed.
DELETES = ".deletes"


def sorts_of(rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """Returns {function: sorts of its arguments and of its result} of the e-graph with these rules.

    A relation has no result.
    """
    lines = (*DECLARATIONS, *declarations(rules).values())
    return {
        name: tuple(w for w in more if w in ("i64", "T", "TV"))
        for what, name, *more in (line.replace("(", " ").replace(")", " ").split() for line in lines)
        if what in ("constructor", "function", "relation")
    }


def is_enode(function: str) -> bool:
    """Whether the rows of a function are e-nodes; handles of the source graph are not."""
    return function[0].isupper() and function != "Node"


@dataclass(slots=True)
class History:
    """The history of a saturation.

    steps: the rule of each step, "" for step 0, which loads the source.
    life: {row: (birth, death)}; the row exists at birth <= step < death, except for its gaps.
    gaps: {row: steps from a deletion until it was made again}.
    joined: {class: (step, the class that it became part of)}.
    facts: rows that are valid at all steps, which are the answers of externs.
    """

    rules: dict[str, Rule]
    sorts: dict[str, tuple[str, ...]]
    values: Interner = field(default_factory=Interner)
    steps: list[str] = field(default_factory=list)
    life: dict[TableRow, tuple[int, int]] = field(default_factory=dict)
    gaps: dict[TableRow, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))
    joined: dict[int, tuple[int, int]] = field(default_factory=dict)
    facts: set[TableRow] = field(default_factory=set)
    frozen: Frozen | None = None
    by_class: dict[tuple[str, Any], list[TableRow]] = field(default_factory=lambda: defaultdict(list))
    by_argument: dict[tuple[str, int, Any], list[TableRow]] = field(default_factory=lambda: defaultdict(list))
    by_name: dict[str, list[TableRow]] = field(default_factory=lambda: defaultdict(list))
    calls: dict[tuple[str, tuple[Any, ...]], list[TableRow]] = field(default_factory=lambda: defaultdict(list))
    lineage: dict[int, list[TableRow]] = field(default_factory=lambda: defaultdict(list))
    origin: dict[int, TableRow] = field(default_factory=dict)

    def index(self) -> None:
        """Fills the tables by which rows are found.

        lineage: {final class: rows of all classes that became it, the oldest first}.
        origin: {class: the row that made it}.
        """
        for row in sorted(self.life, key=lambda r: self.life[r][0]):
            self._enter(row)
            name, _, out = row
            if is_enode(name):
                self.lineage[self.cls(out)].append(row)
                self.origin.setdefault(out, row)
        for row in self.facts:
            self._enter(row)

    def _enter(self, row: TableRow) -> None:
        name, args, out = row
        self.by_name[name].append(row)
        self.by_class[name, out].append(row)
        self.calls[name, args].append(row)
        for i, a in enumerate(args):
            self.by_argument[name, i, a].append(row)

    def operands(self, row: TableRow) -> list[int]:
        """Returns the classes of the operands of a row."""
        return self.classes(row[0], row[1])

    def classes(self, function: str, values: Iterable[Any]) -> list[int]:
        """Returns the classes among the arguments of a function, or among these and its result."""
        out: list[int] = []
        for kind, value in zip(self.sorts[function], values):
            out += [value] if kind == "T" else value if kind == "TV" else []
        return out

    def alive(self, row: TableRow, step: int) -> bool:
        if row in self.facts:
            return True
        birth, death = self.life[row]
        return birth <= step < death and not any(gone <= step < again for gone, again in self.gaps.get(row, ()))

    def cls(self, c: int, step: int = FOREVER) -> int:
        """Returns the class that c is part of after `step`."""
        while (link := self.joined.get(c)) and link[0] <= step:
            c = link[1]
        return c

    def at(self, row: TableRow, step: int) -> TableRow:
        """Returns `row` as it is written after `step`."""
        name, args, out = row
        kinds = self.sorts[name]
        result = self.value_at(kinds[-1], out, step) if len(kinds) > len(args) else None
        return name, tuple(self.value_at(k, a, step) for k, a in zip(kinds, args)), result

    def value_at(self, kind: str, value: Any, step: int) -> Any:
        if kind == "T":
            return self.cls(value, step)
        return tuple(self.cls(c, step) for c in value) if kind == "TV" else value

    def version(self, row: TableRow, step: int = FOREVER) -> TableRow:
        """Returns `row` as it was written after `step`, or when it was deleted."""
        while (death := self.life[row][1] if row in self.life else step) <= step:
            later = self.at(row, death)
            if later == row or later not in self.life:
                break
            row = later
        return row

    def origin_at(self, cls: int, step: int = FOREVER) -> TableRow:
        """Returns the e-node that made a class, as it is written after `step`."""
        return self.version(self.origin[cls], step)

    def find(self, name: str, args: tuple[Any, ...], step: int) -> TableRow | None:
        """Returns the row of a call after `step`, None if there is none.

        args: the arguments as they are written after `step`.
        """
        return next((r for r in self.calls.get((name, args), ()) if self.alive(r, step)), None)

    def type_of(self, c: int) -> Type:
        """Returns the shape and dtype of a class."""
        row = next(r for r in self.by_argument["type", 0, self.cls(c)] if self.life[r][1] == FOREVER)
        found: Type = self.values[row[2]]
        return found


def record(graph: TensorGraph, rules: Sequence[Rule], budget: Budget) -> History:
    """Saturates `graph` again, and returns the history of its rows.

    Raises EngineError.
    """
    history = History({r.name: r for r in rules}, sorts_of(rules))
    names = {e.name for r in (*TYPES, *rules) for e in r.externs}
    number: dict[Any, int] = {}
    current: dict[TableRow, int] = {}

    def look(engine: Engine, rule: str) -> None:
        if history.steps and not rule:  # the end: answers of externs hold at all steps
            history.facts.update(engine.rows(names.__contains__, number))
            history.values = engine.intern
            return
        step = len(history.steps)
        history.steps.append(rule.removesuffix(DELETES))
        now = dict.fromkeys(engine.rows(history.sorts.__contains__, number))  # a fixed order
        died = [r for r in current if r not in now]
        if died and not rule.endswith(DELETES):
            _join(history, died, current, now, step)
        for r in died:
            history.life[r] = (current.pop(r), step)
        for r in now:
            if r not in current:
                current[r] = step
                if r in history.life:
                    current[r], gone = history.life[r]
                    history.gaps[r].append((gone, step))

    history.frozen = saturate(graph, _split_removals(rules), budget, look)
    history.life.update({r: (birth, FOREVER) for r, birth in current.items()})
    history.index()
    return history


def _split_removals(rules: Sequence[Rule]) -> list[Rule]:
    out = []
    for r in rules:
        out += [replace(r, removes=False), replace(r, name=r.name + DELETES)] if r.removes else [r]
    return out


def _join(
    history: History, died: Sequence[TableRow], current: Iterable[TableRow], now: Iterable[TableRow], step: int
) -> None:
    """Finds the classes that the removed classes became part of: their rows exist under the numbers of these."""
    there = {c for name, args, out in now for c in history.classes(name, (*args, out))}
    gone = {c for name, args, out in died for c in history.classes(name, (*args, out))} - there
    calls = {(name, args): out for name, args, out in now if is_enode(name)}
    waiting = [r for r in died if is_enode(r[0]) and r[2] in gone]
    while gone:
        later = []
        for row in waiting:
            if row[2] in gone:
                name, args, _ = history.at(row, step)
                survivor = calls.get((name, args))
                if survivor is None:
                    later.append(row)
                    continue
                history.joined[row[2]] = (step, survivor)
                gone.discard(row[2])
        if len(later) == len(waiting):
            return
        waiting = later
