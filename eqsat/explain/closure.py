"""The congruence closure of logged instances: what is equal since when, and why.

A term is the e-node that made a class, and has its number; each class that ever was has one.
Two terms are equal by an instance of a rule, or because they are calls of equal operands.
Each equality has a time, and needs only those before it, so that no proof is circular.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from eqsat.egraph.log import Instance, Row

#: A time after all equalities.
FOREVER = sys.maxsize


class Equality(NamedTuple):
    """The first equality of two terms' classes.

    instance: the instance by which `left` equals `right`; None for calls of equal operands.
    assumed: e-nodes that the instance assumes to be in their classes, with the terms of their calls.
    """

    left: int
    right: int
    instance: Instance | None = None
    assumed: tuple[tuple[Row, int], ...] = ()


class Link(NamedTuple):
    """An instance of a rule, applied from left to right or backwards, and its time."""

    instance: Instance
    time: int
    backwards: bool

    @property
    def start(self) -> Row:
        return self.instance.right if self.backwards else self.instance.left

    @property
    def end(self) -> Row:
        return self.instance.left if self.backwards else self.instance.right


@dataclass(slots=True)
class Proof:
    """A proof that `start` equals `end`.

    links: links in order, each with the proofs of the e-nodes that it needs.
    needs: the proofs for the last rewriting to `end`.
    """

    start: Row
    end: Row
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
        return list(dict.fromkeys(link.instance.rule for p in self.proofs() for link, _ in p.links))


class Closure:
    """Terms and their equalities.

    terms: {class: the e-node that made it, as it was then}.
    equalities: those that made two classes one, by time.
    """

    def __init__(self) -> None:
        self.terms: dict[int, Row] = {}
        self.equalities: list[Equality] = []
        #: {class: (time, the class that it became part of)}.
        self._joined: dict[int, tuple[int, int]] = {}
        #: {class: terms that read it, one of each call}.
        self._readers: dict[int, dict[int, None]] = defaultdict(dict)
        self._calls: dict[tuple[object, ...], int] = {}
        self._proofs: dict[tuple[int, int, Row], Proof] = {}
        #: Proofs without links yet, with the terms between which they lead.
        self._open: list[tuple[Proof, int, int]] = []

    def add(self, row: Row) -> int:
        """Adds an e-node if it is new, and returns the term of its call."""
        if row.cls not in self.terms:
            self.terms[row.cls] = row
            # another term has the call if a rule had deleted the e-node
            self._join(Equality(self._enter(row.cls), row.cls))
        return self._calls[self.at(row)[:3]]

    def apply(self, instance: Instance) -> None:
        """Adds an instance, and all that follows by congruence."""
        terms = [(row, self.add(row)) for row in (*instance.seen, *instance.made)]
        needed = tuple((row, term) for row, term in terms if row != self.terms[row.cls])
        self._join(Equality(self.add(instance.left), self.add(instance.right), instance, needed))

    def term(self, row: Row) -> int | None:
        """Returns the term of a call, None if there is none."""
        return self._calls.get(self.at(row)[:3])

    def _enter(self, term: int) -> int:
        """Returns the term of the call of a term, which is itself if the call is new."""
        row = self.at(self.terms[term])
        known = self._calls.setdefault(row[:3], term)
        if known == term:
            for c in set(row.operands):
                self._readers[c][term] = None
        return known

    def _join(self, equality: Equality) -> None:
        waiting = deque([equality])
        while waiting:
            equality = waiting.popleft()
            a, b = sorted((self.find(equality.left), self.find(equality.right)))
            if a != b:
                self._joined[b] = len(self.equalities), a
                self.equalities.append(equality)
                for reader in self._readers.pop(b, {}):
                    waiting.append(Equality(self._enter(reader), reader))

    def find(self, c: int, time: int = FOREVER) -> int:
        """Returns the class that c was part of before a time."""
        while (joined := self._joined.get(c)) and joined[0] < time:
            c = joined[1]
        return c

    def at(self, row: Row, time: int = FOREVER) -> Row:
        """Returns an e-node as it was written before a time."""
        operands = tuple(self.find(c, time) for c in row.operands)
        return Row(row.function, row.attributes, operands, self.find(row.cls, time))

    def prove(self, first: int, end: Row) -> Proof:
        """Returns the chain from a term to an e-node of its class, by the first equalities, or raises KeyError."""
        proof = self._prove_between(first, self._calls[self.at(end)[:3]], end)
        while self._open:
            self._fill(*self._open.pop())
        return proof

    def _prove_between(self, first: int, last: int, end: Row) -> Proof:
        """Returns the proof that two terms are equal; `end` is a call of the last one with operands that are equal."""
        key = first, last, end
        if key not in self._proofs:
            self._proofs[key] = Proof(self.terms[first], end)
            self._open.append((self._proofs[key], first, last))
        return self._proofs[key]

    def _fill(self, proof: Proof, first: int, last: int) -> None:
        """Adds the links to a proof."""
        at = proof.start
        for time, backwards in self._path(first, last):
            equality = self.equalities[time]
            if equality.instance:
                link = Link(equality.instance, time, backwards)
                assumed = (self._prove_between(row.cls, term, row) for row, term in equality.assumed)
                proof.links.append((link, [*self._same(at, link.start), *assumed]))
                at = link.end
        proof.needs += self._same(at, proof.end)

    def _same(self, one: Row, other: Row) -> Iterator[Proof]:
        """Yields the proofs that the operands of two calls are equal."""
        for a, b in zip(one.operands, other.operands, strict=True):
            if a != b:
                yield self._prove_between(a, b, self.terms[b])

    def _path(self, a: int, b: int) -> list[tuple[int, bool]]:
        """Returns the times of the equalities that lead from a term to another one, and whether each is backwards."""
        if a == b:
            return []
        time = self._since(a, b)
        one, other = self.equalities[time][:2]
        backwards = self.find(a, time) != self.find(one, time)
        if backwards:
            one, other = other, one
        return [*self._path(a, one), (time, backwards), *self._path(other, b)]

    def _since(self, a: int, b: int) -> int:
        """Returns the time of the equality that made two classes one."""
        never, time = (FOREVER, -1), -1
        while a != b:
            if self._joined.get(a, never) > self._joined.get(b, never):
                a, b = b, a
            time, a = self._joined[a]
        return time
