"""Proofs: chains of rule applications between two e-nodes of one class.

A link is one instance of a rule (its left and its right e-node), found by matching the rule against the rows of its
step. Two rows are also joined where they are the same call of classes that became one by then. A link at step s only
uses what was there before s, so proofs of the e-nodes that it saw below the left one end before s, and no proof goes in
a circle.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import count

from eqsat.explain.joins import Adjacency, Joins, Link
from eqsat.explain.match import Matcher
from eqsat.explain.record import FOREVER, History, TableRow

#: Lengths of a step on the way of a proof: a rule, and a row rewritten because classes below it became one.
_LINK, _REWRITTEN = 4, 5
#: Ways that are tried where a proof would need itself.
_ATTEMPTS = 30


class ExplainError(ValueError):
    """Something that cannot be explained; the message says why."""


class _Circular(ExplainError):
    """A way that needs what it is to prove; another way may not."""


#: Two rows that are the same call, and the link that leads on from the second; None at the end of a way.
Stretch = tuple[TableRow, TableRow, Link | None]
#: The row that the last link led to, and one that this is rewritten as.
Same = tuple[TableRow, TableRow]
#: What a way may have to do without: two rows being the same call, or a link (by rule, step and rows).
Part = Same | tuple[str, int, TableRow, TableRow]


@dataclass(slots=True)
class Proof:
    """start = end: links in order, each after the proofs of what it needs below; `needs` of the proof itself come
    last."""

    start: TableRow
    end: TableRow
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
        self.joins = Joins(history, Matcher(history))
        self._proofs: dict[tuple[TableRow, TableRow, int], Proof | None] = {}
        self._neighbours: dict[int, Adjacency] = {}

    def prove(self, start: TableRow, end: TableRow, limit: int = FOREVER) -> Proof:
        """A short chain from `start` to `end`, using nothing after step `limit`. Raises ExplainError if there is
        none."""
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
        """Fills in the proof along a way. Raises _Circular, the part that needs the proof itself banned for the next
        attempt."""
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
        """Why two rows are the same call: proofs for the operands that were of different classes when the rows were
        written."""
        out = []
        for a, b in zip(self.history.operands(one), self.history.operands(other)):
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

    def _assumed(self, link: Link) -> list[TableRow]:
        """E-nodes that a link takes to be in their classes: those that the pattern saw, and parts of the right side
        that were there."""
        if link.match is None:
            return []
        life = self.history.life
        return [
            *link.match.seen.values(),
            *(r for r in link.match.made.values() if r in life and life[r][0] < link.step),
        ]

    def _is_in(self, row: TableRow, limit: int) -> list[Proof]:
        """Why an e-node that a rule saw is in its class."""
        origin = self.history.origin[row[2]]
        if self.history.origin_at(row[2], limit) == row:
            return []
        proof = self.prove(origin, row, limit)
        return [proof] if proof.links or proof.needs else []

    def _way(self, start: TableRow, end: TableRow, limit: int, banned: Collection[Part]) -> list[Stretch]:
        """The shortest without what is banned. What two rows need to be the same call is up to the two, whatever is
        between: so it is looked for among pairs of the row that the last link led to and the row that this is rewritten
        as."""
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
        """Length of a link: more where what its rule saw has to be proved in its turn."""
        return _LINK * (1 + sum(self.history.origin_at(r[2], link.step - 1) != r for r in self._assumed(link)))

    def _graph(self, cls: int) -> Adjacency:
        if cls not in self._neighbours:
            self._neighbours[cls] = self.joins.neighbours(cls)
        return self._neighbours[cls]


def _key(link: Link) -> Part:
    return link.rule, link.step, link.start, link.end


__all__ = ["Chains", "ExplainError", "Proof"]
