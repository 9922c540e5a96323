"""Proofs: chains of rule applications between two e-nodes of one class.

A link is one instance of a rule (its left and its right e-node), found by matching the rule against the rows of its step. Two
rows are also joined where they are the same call of classes that became one by then. A link at step s only uses what was
there before s, so proofs of the e-nodes that it saw below the left one end before s, and no proof goes in a circle.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

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


#: From a row to another: by a link, or None where they are one call rewritten.
Hop = tuple[TableRow, TableRow, Link | None]


@dataclass(slots=True)
class Proof:
    """start = end: links in order, each after the proofs of what it needs below; `needs` of the proof itself come last."""

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

    def _proof(self, start: TableRow, end: TableRow, limit: int) -> Proof:
        banned: set[tuple[TableRow, TableRow]] = set()
        for _ in range(_ATTEMPTS):
            try:
                return self._along(self._path(start, end, limit, banned), start, end, limit, banned)
            except _Circular as e:
                problem = e
        raise problem

    def _along(
        self, path: list[Hop], start: TableRow, end: TableRow, limit: int, banned: set[tuple[TableRow, TableRow]]
    ) -> Proof:
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

    def _same(self, one: TableRow, other: TableRow, limit: int) -> list[Proof]:
        """Why two rows are the same call: proofs for the operands that were of different classes when the rows were written."""
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
        """E-nodes that a link takes to be in their classes: those that the pattern saw, and parts of the right side that were there."""
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

    def _path(
        self, start: TableRow, end: TableRow, limit: int, banned: Collection[tuple[TableRow, TableRow]]
    ) -> list[Hop]:
        graph = self._graph(self.history.cls(start[2]))
        before: dict[TableRow, Hop] = {}
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
        return _LINK * (1 + sum(self.history.origin_at(r[2], link.step - 1) != r for r in self._assumed(link)))

    def _graph(self, cls: int) -> Adjacency:
        if cls not in self._neighbours:
            self._neighbours[cls] = self.joins.neighbours(cls)
        return self._neighbours[cls]


__all__ = ["Chains", "ExplainError", "Proof"]
