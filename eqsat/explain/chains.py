"""Proofs: chains of rule applications between two e-nodes of one class.

A link is one instance of a rule, with its left and its right e-node.
It is found by matching the rule against the rows of its step.
Two rows are also joined if they are calls of equal operands after a union of classes.
A link at step s only uses rows from before s.
So the proofs of the e-nodes that it saw below its left one end before s, and no proof is circular.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from eqsat.explain.joins import Adjacency, Joins, Link
from eqsat.explain.record import FOREVER, History, TableRow

#: Length of a link by a rule in a proof.
_LINK = 4
#: Length of a rewritten row, whose operands' classes were united.
_REWRITTEN = 5
#: Paths that are tried if a proof would need itself.
_ATTEMPTS = 30


class ExplainError(ValueError):
    """An object that cannot be explained; the message says why."""


class _Circular(ExplainError):
    """A path that needs the equation that it has to prove; another path may not."""


#: Two rows that are one call, and the link from the second one; None at the end of a path.
Stretch = tuple[TableRow, TableRow, Link | None]
#: The row at which the last link ended, and a row as which it is rewritten.
Same = tuple[TableRow, TableRow]
#: A part that a path may have to avoid: two rows as one call, or a link (rule, step and rows).
Part = Same | tuple[str, int, TableRow, TableRow]


@dataclass(slots=True)
class Proof:
    """A proof that `start` equals `end`.

    links: links in order, each with the proofs of the e-nodes that it needs.
    needs: the proofs for the last rewriting to `end`.
    """

    start: TableRow
    end: TableRow
    links: list[tuple[Link, list[Proof]]] = field(default_factory=list)
    needs: list[Proof] = field(default_factory=list)

    def proofs(self) -> Iterator[Proof]:
        """Yields this proof and all proofs that it needs, each once, the needed ones first."""
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
        """Returns the names of all rules in it, in the order of use."""
        return list(dict.fromkeys(link.rule for p in self.proofs() for link, _ in p.links))


class Chains:
    """The search for proofs in a history."""

    def __init__(self, history: History):
        self.history = history
        self.joins = Joins(history)
        self._proofs: dict[tuple[TableRow, TableRow, int], Proof | None] = {}
        self._neighbours: dict[int, Adjacency] = {}

    def prove(self, start: TableRow, end: TableRow, limit: int = FOREVER) -> Proof:
        """Returns a short chain from `start` to `end` that uses nothing after step `limit`.

        Raises ExplainError if there is none.
        """
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

    def _proof(self, start: TableRow, end: TableRow, limit: int) -> Proof:
        banned: set[Part] = set()
        for _ in range(_ATTEMPTS):
            try:
                return self._along(self._way(start, end, limit, banned), Proof(start, end), limit, banned)
            except _Circular as e:
                problem = e
        raise problem

    def _along(self, way: Iterable[Stretch], proof: Proof, limit: int, banned: set[Part]) -> Proof:
        """Adds the links of a path to a proof.

        Raises _Circular if a part needs the proof itself; that part is then banned for the next attempt.
        """
        for at, row, link in way:
            part: Part = (at, row)
            try:
                needs = self._same(at, row, limit)
                if link is None:
                    proof.needs = needs
                    continue
                part = _key(link)
                for seen in self._assumed(link):
                    needs += self._is_in(seen, link.step - 1)
            except _Circular:
                banned.add(part)
                raise
            proof.links.append((link, needs))
        return proof

    def _same(self, one: TableRow, other: TableRow, limit: int) -> list[Proof]:
        """Returns the proofs that two rows are one call: of operands that were in different classes before."""
        h, out = self.history, []
        for a, b in zip(h.operands(one), h.operands(other)):
            if a != b:
                steps = range(min(limit, len(h.steps)))
                joint = next((s for s in steps if h.cls(a, s) == h.cls(b, s)), limit)
                out.append(self.prove(h.origin[a], h.origin[b], joint))
        return [p for p in out if p.links or p.needs]

    def _assumed(self, link: Link) -> list[TableRow]:
        """Returns the e-nodes that a link assumes: those that the pattern saw, and older parts of the right side."""
        if link.match is None:
            return []
        life = self.history.life
        older = (r for r in link.match.made.values() if r in life and life[r][0] < link.step)
        return [*link.match.seen.values(), *older]

    def _is_in(self, row: TableRow, limit: int) -> list[Proof]:
        """Returns the proofs that an e-node that a rule saw is in its class."""
        origin = self.history.origin[row[2]]
        if self.history.origin_at(row[2], limit) == row:
            return []
        proof = self.prove(origin, row, limit)
        return [proof] if proof.links or proof.needs else []

    def _way(self, start: TableRow, end: TableRow, limit: int, banned: Collection[Part]) -> list[Stretch]:
        """Returns the shortest path without banned parts.

        The proofs that two rows are one call depend on these two rows only, not on rows between them.
        So the search has pairs as states: the row after the last link, and the row as which it is rewritten.
        """
        graph = self._graph(self.history.cls(start[2]))
        before: dict[Same, tuple[Same, Link | None]] = {}
        first, last = (start, start), None
        cost, queue, number = {first: 0}, [(0, 0, first)], count(1)
        while queue:
            price, _, state = heapq.heappop(queue)
            at, row = state
            is_same = state not in banned
            if row == end and is_same:
                last = state
                break
            if price > cost[state]:
                continue
            for other, link, step in graph.get(row, ()):
                if step > limit or link and (not is_same or _key(link) in banned):
                    continue
                following = (other if link else at, other)
                more = price + (self._effort(link) if link else _REWRITTEN)
                if more < cost.get(following, FOREVER):
                    cost[following], before[following] = more, (state, link)
                    heapq.heappush(queue, (more, next(number), following))
        if last is None:
            raise (_Circular if banned else ExplainError)(f"no chain of rules leads from {start} to {end}")
        way: list[Stretch] = [(*last, None)]
        while last != first:
            last, link = before[last]
            if link:
                way.append((*last, link))
        return way[::-1]

    def _effort(self, link: Link) -> int:
        """Returns the length of a link, which grows with the e-nodes that have to be proved."""
        return _LINK * (1 + sum(self.history.origin_at(r[2], link.step - 1) != r for r in self._assumed(link)))

    def _graph(self, cls: int) -> Adjacency:
        if cls not in self._neighbours:
            self._neighbours[cls] = self.joins.neighbours(cls)
        return self._neighbours[cls]


def _key(link: Link) -> Part:
    return link.rule, link.step, link.start, link.end
