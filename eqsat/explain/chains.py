"""Proofs: chains of rule applications between two e-nodes of one class.

A link is one instance of a rule (its left and its right e-node), found by matching the rule against the rows of its step. Two
rows are also joined where they are the same call of classes that became one by then. A link at step s only uses what was
there before s, so proofs of the e-nodes that it saw below the left one end before s, and no proof goes in a circle.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from eqsat.egraph.engine import Rule
from eqsat.explain.match import Match, Matcher, Unsupported
from eqsat.explain.record import CONSTRUCTORS, FOREVER, SORTS, History, Row
from eqsat.explain.sexpr import parse

#: Lengths of a step on the way of a proof: a rule, and a row rewritten because classes below it became one.
_LINK, _REWRITTEN = 4, 5
#: Ways that are tried where a proof would need itself.
_ATTEMPTS = 30


class ExplainError(ValueError):
    """Something that cannot be explained; the message says why."""


class _Circular(ExplainError):
    """A way that needs what it is to prove; another way may not."""


@dataclass(frozen=True, slots=True)
class Link:
    """left -> right at a step by a rule, or backwards. match: None where the rule could not be matched again, but joined the two."""

    rule: str
    step: int
    left: Row
    right: Row
    match: Match | None = None
    backwards: bool = False

    @property
    def start(self) -> Row:
        return self.right if self.backwards else self.left

    @property
    def end(self) -> Row:
        return self.left if self.backwards else self.right


#: From a row to another: by a link, or None where they are one call rewritten.
Hop = tuple[Row, Row, Link | None]


@dataclass(slots=True)
class Proof:
    """start = end: links in order, each after the proofs of what it needs below; `needs` of the proof itself come last."""

    start: Row
    end: Row
    links: list[tuple[Link, list[Proof]]] = field(default_factory=list)
    needs: list[Proof] = field(default_factory=list)

    def proofs(self) -> Iterator[Proof]:
        """All proofs that this one rests on and itself, each once, the needed first."""
        done: set[int] = set()
        stack = [(self, False)]
        while stack:
            proof, ready = stack.pop()
            if ready:
                yield proof
            elif id(proof) not in done:
                done.add(id(proof))
                stack.append((proof, True))
                stack.extend(
                    (n, False)
                    for needs in (proof.needs, *(needs for _, needs in reversed(proof.links)))
                    for n in reversed(needs)
                )

    def rules(self) -> list[str]:
        """Names of all rules in it, in the order of use."""
        return list(dict.fromkeys(link.rule for p in self.proofs() for link, _ in p.links))


class Chains:
    """Finds proofs in a history."""

    def __init__(self, history: History):
        self.history = history
        self.matcher = Matcher(history)
        self._removals = [
            r
            for r in history.rules.values()
            if not r.analysis
            and any(
                a[0] == "union" and isinstance(a[2], str) and isinstance(a[1], str) for a in parse(" ".join(r.head))
            )
        ]
        self._proofs: dict[tuple[Row, Row, int], Proof | None] = {}
        self._links: dict[int, dict[Row, list[tuple[Row, Link | None, int]]]] = {}

    def origin(self, cls: int, step: int = FOREVER) -> Row:
        """The e-node that made a class, as of `step`."""
        return self.history.version(self.history.origin[cls], step)

    def prove(self, start: Row, end: Row, limit: int = FOREVER) -> Proof:
        """A short chain from `start` to `end`, using nothing after step `limit`. Raises ExplainError if there is none."""
        key = (start, end, limit)
        if key in self._proofs:
            proof = self._proofs[key]
            if proof is None:
                raise _Circular(f"the proof of {start} = {end} needs itself")
            return proof
        self._proofs[key] = None
        try:
            proof = self._proof(start, end, limit)
        except BaseException:
            del self._proofs[key]
            raise
        self._proofs[key] = proof
        return proof

    def _proof(self, start: Row, end: Row, limit: int) -> Proof:
        banned: set[tuple[Row, Row]] = set()
        for _ in range(_ATTEMPTS):
            try:
                return self._along(self._path(start, end, limit, banned), start, end, limit, banned)
            except _Circular as e:
                problem = e
        raise problem

    def _along(self, path: list[Hop], start: Row, end: Row, limit: int, banned: set[tuple[Row, Row]]) -> Proof:
        """The proof along a path. Raises _Circular, its part that needs itself banned for the next attempt."""
        proof, at, since = Proof(start, end), start, []
        for row, other, link in path:
            since.append((row, other))
            if link is None:
                continue
            try:
                needs = self._same(at, link.start, limit)
                for row in self._assumed(link):
                    needs += self._is_in(row, link.step - 1)
            except _Circular:
                banned.update(since)
                raise
            proof.links.append((link, needs))
            at, since = link.end, []
        try:
            proof.needs = self._same(at, end, limit)
        except _Circular:
            banned.update(since)
            raise
        return proof

    def _same(self, one: Row, other: Row, limit: int) -> list[Proof]:
        """Why two rows are the same call: proofs for the operands that were of different classes when the rows were written."""
        out = []
        for a, b in zip(operands(one), operands(other)):
            if a != b:
                joint = next(
                    (
                        s
                        for s in range(min(limit, len(self.history.steps)))
                        if self.history.cls(a, s) == self.history.cls(b, s)
                    ),
                    limit,
                )
                out.append(self.prove(self.history.origin[a], self.history.origin[b], joint))
        return [p for p in out if p.links or p.needs]

    def _assumed(self, link: Link) -> list[Row]:
        """E-nodes that a link takes to be in their classes: those that the pattern saw, and parts of the right side that were there."""
        if link.match is None:
            return []
        life = self.history.life
        return [
            *link.match.seen.values(),
            *(r for r in link.match.made.values() if r in life and life[r][0] < link.step),
        ]

    def _is_in(self, row: Row, limit: int) -> list[Proof]:
        """Why an e-node that a rule saw is in its class."""
        origin = self.history.origin[row[2]]
        if self.origin(row[2], limit) == row:
            return []
        proof = self.prove(origin, row, limit)
        return [proof] if proof.links or proof.needs else []

    def _path(self, start: Row, end: Row, limit: int, banned: Collection[tuple[Row, Row]]) -> list[Hop]:
        graph = self._graph(self.history.cls(start[2]))
        before: dict[Row, Hop] = {}
        cost, queue = {start: 0}, [(0, 0, start)]
        while queue:
            price, _, row = heapq.heappop(queue)
            if row == end:
                break
            if price > cost[row]:
                continue
            for other, link, step in graph.get(row, ()):
                more = price + (self._effort(link) if link else _REWRITTEN)
                if step <= limit and (row, other) not in banned and more < cost.get(other, FOREVER):
                    cost[other], before[other] = more, (row, other, link)
                    heapq.heappush(queue, (more, len(before), other))
        if end not in cost:
            raise (_Circular if banned else ExplainError)(f"no chain of rules leads from {start} to {end}")
        path = []
        while end != start:
            path.append(before[end])
            end = before[end][0]
        return path[::-1]

    def _effort(self, link: Link) -> int:
        """Length of a link: more where what its rule saw has to be proved in its turn."""
        return _LINK * (1 + sum(self.origin(r[2], link.step - 1) != r for r in self._assumed(link)))

    def _graph(self, cls: int) -> dict[Row, list[tuple[Row, Link | None, int]]]:
        """{row: (neighbour, link or None for the same row rewritten, step)} of all rows that ended up in a class."""
        if cls in self._links:
            return self._links[cls]
        h, out = self.history, defaultdict(list)
        rows = h.lineage[cls]
        rewritten: set[tuple[Row, int]] = set()

        def join(a: Row, b: Row, link: Link | None, back: Link | None, step: int) -> None:
            if a != b:
                out[a].append((b, link, step))
                out[b].append((a, back, step))

        for row in rows:
            death = h.life[row][1]
            if death < FOREVER:
                later = h.at(row, death)
                if later != row and later in h.life:
                    join(row, later, None, None, death)
                    rewritten.add((later, death))
        new = [r for r in rows if h.life[r][0] > 0 and (r, h.life[r][0]) not in rewritten]
        ids = {r[2] for r in rows}
        happened = {h.life[r][0] for r in new} | {h.joined[c][0] for c in ids if c in h.joined}
        for step in sorted(happened | {len(h.steps)}):
            here = {h.cls(c, step - 1) for c in ids if h.life[h.origin[c]][0] < step}
            found = self._instances(h.rules.get(h.steps[step]), step, here) if step in happened else []
            for rule in (
                self._removals
            ):  # they say nothing new of what is in its operand's class already, but are the shortest proof
                found += self._instances(rule, step, here)
            for link in found:
                if link.right not in h.life:
                    join(link.right, h.at(link.right, step), None, None, step)
                back = Link(link.rule, step, link.left, link.right, link.match, True)
                join(link.left, link.right, link, back, step)
            explained = {h.at(link.right, step) for link in found}
            for row in new:
                if (
                    h.life[row][0] == step
                    and row not in explained
                    and h.cls(row[2], step) in {h.cls(c, step) for c in here}
                ):
                    left = self.origin(next(c for c in here if h.cls(c, step) == h.cls(row[2], step)), step - 1)
                    link = Link(h.steps[step], step, left, row)
                    join(left, row, link, Link(link.rule, step, left, row, None, True), step)
        self._links[cls] = out
        return out

    def _instances(self, rule: Rule | None, step: int, classes: Iterable[int]) -> list[Link]:
        out = []
        if rule is None or rule.analysis:
            return out
        for c in classes:
            try:
                for m in self.matcher.matches(rule, step, c):
                    left = m.left or self.origin(c, step - 1)
                    out.append(Link(rule.name, step, left, m.right, m))
            except Unsupported:
                return out
        return out


def operands(row: Row) -> list[int]:
    out: list[int] = []
    for kind, value in zip(SORTS[row[0]], row[1]):
        if kind == "T":
            out.append(value)
        elif kind == "TV":
            out.extend(value)
    return out


__all__ = ["CONSTRUCTORS", "Chains", "ExplainError", "Link", "Proof", "operands"]
