"""Direct joins of rows of one final class, by rules or by unions of operands' classes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from eqsat.egraph.rule import Rule
from eqsat.explain.match import Match, Matcher
from eqsat.explain.record import FOREVER, History, TableRow


@dataclass(frozen=True, slots=True)
class Link:
    """The application of a rule at a step from left to right, or backwards.

    match: its match, None if the rule joined the two but could not be matched again.
    """

    rule: str
    step: int
    left: TableRow
    right: TableRow
    match: Match | None = None
    backwards: bool = False

    @property
    def start(self) -> TableRow:
        return self.right if self.backwards else self.left

    @property
    def end(self) -> TableRow:
        return self.left if self.backwards else self.right


#: {row: [(neighbour, link or None for a rewritten call, step)]}, in both directions.
Adjacency = dict[TableRow, list[tuple[TableRow, Link | None, int]]]


class Joins:
    """The joins of one history."""

    def __init__(self, history: History):
        self.history, self.matcher = history, Matcher(history)
        #: Rules that only unite an e-node with its operand.
        #: They join nothing new, since both are in one class already, but give the shortest proofs.
        self._removals = [r for r in history.rules.values() if not r.analysis and _joins_two_names(r)]

    def neighbours(self, cls: int) -> Adjacency:
        """Returns the joins of the rows that ended in class `cls`."""
        h = self.history
        out: Adjacency = defaultdict(list)
        rows = h.lineage[cls]
        rewritten = self._join_rewritten(rows, out)
        new = [r for r in rows if h.life[r][0] > 0 and (r, h.life[r][0]) not in rewritten]
        classes = {r[2] for r in rows}
        happened = {h.life[r][0] for r in new} | {h.joined[c][0] for c in classes if c in h.joined}
        for step in sorted(happened | {len(h.steps)}):
            before = {h.cls(c, step - 1) for c in classes if h.life[h.origin[c]][0] < step}
            rules = [h.rules.get(h.steps[step])] if step in happened else []
            links = [link for rule in (*rules, *self._removals) for link in self._instances(rule, step, before)]
            for link in links:
                if link.right not in h.life:
                    _join(out, link.right, h.at(link.right, step), None, step)
                _join(out, link.left, link.right, link, step)
            explained = {h.at(link.right, step) for link in links}
            self._join_unexplained([r for r in new if h.life[r][0] == step and r not in explained], before, step, out)
        return out

    def _join_rewritten(self, rows: Iterable[TableRow], out: Adjacency) -> set[tuple[TableRow, int]]:
        """Joins each row with its rewritten form after a union of an operand's class.

        Returns {(rewritten row, step)}.
        """
        h, rewritten = self.history, set()
        for row in rows:
            death = h.life[row][1]
            if death < FOREVER:
                later = h.at(row, death)
                if later != row and later in h.life:
                    _join(out, row, later, None, death)
                    rewritten.add((later, death))
        return rewritten

    def _join_unexplained(self, new: Iterable[TableRow], before: set[int], step: int, out: Adjacency) -> None:
        """Joins rows that a step made, but that no match of its rule explains, with their class."""
        h = self.history
        became = {h.cls(c, step): c for c in reversed(list(before))}
        for row in new:
            cls = became.get(h.cls(row[2], step))
            if cls is not None:
                left = self.history.origin_at(cls, step - 1)
                _join(out, left, row, Link(h.steps[step], step, left, row), step)

    def _instances(self, rule: Rule | None, step: int, classes: Iterable[int]) -> list[Link]:
        if rule is None or rule.analysis:
            return []
        return [
            Link(rule.name, step, m.left or self.history.origin_at(c, step - 1), m.right, m)
            for c in classes
            for m in self.matcher.matches(rule, step, c)
        ]


def _join(out: Adjacency, a: TableRow, b: TableRow, link: Link | None, step: int) -> None:
    """Joins two rows, by `link` from a to b or as one rewritten call."""
    if a != b:
        out[a].append((b, link, step))
        out[b].append((a, replace(link, backwards=True) if link else None, step))


def _joins_two_names(rule: Rule) -> bool:
    return any(a[0] == "union" and isinstance(a[2], str) for a in rule.compiled.query.actions)
