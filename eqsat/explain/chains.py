"""Proofs: chains of instances of rules between two e-nodes of one class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from eqsat.egraph.log import Instance, Row
from eqsat.explain.closure import Closure


class ExplainError(ValueError):
    """An object that cannot be explained; the message says why."""


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


class Chains:
    """The proofs of a closure, each of the first equalities that suffice.

    An instance needs equalities from before it only, so no proof needs itself.
    """

    def __init__(self, closure: Closure):
        self.closure = closure
        self._proofs: dict[tuple[int, int, Row], Proof] = {}
        #: Proofs without links yet, with the terms between which they lead.
        self._open: list[tuple[Proof, int, int]] = []

    def prove(self, first: int, end: Row) -> Proof:
        """Returns the chain from a term to an e-node of its class.

        Raises ExplainError if there is none.
        """
        last = self.closure.term(end)
        if last is None or self.closure.find(last) != self.closure.find(first):
            raise ExplainError(f"no chain of rules leads from {self.closure.terms[first]} to {end}")
        proof = self._between(first, last, end)
        while self._open:
            self._fill(*self._open.pop())
        return proof

    def _between(self, first: int, last: int, end: Row) -> Proof:
        """Returns the proof that two terms are equal; `end` is a call of the last one with operands that are equal."""
        key = first, last, end
        if key not in self._proofs:
            self._proofs[key] = Proof(self.closure.terms[first], end)
            self._open.append((self._proofs[key], first, last))
        return self._proofs[key]

    def _fill(self, proof: Proof, first: int, last: int) -> None:
        """Adds the links to a proof."""
        at = proof.start
        for time, backwards in self.closure.path(first, last):
            equality = self.closure.equalities[time]
            if equality.instance:
                link = Link(equality.instance, time, backwards)
                assumed = (self._between(row.cls, term, row) for row, term in equality.assumed)
                proof.links.append((link, [*self._same(at, link.start), *assumed]))
                at = link.end
        proof.needs += self._same(at, proof.end)

    def _same(self, one: Row, other: Row) -> Iterator[Proof]:
        """Yields the proofs that the operands of two calls are equal."""
        for a, b in zip(one.operands, other.operands, strict=True):
            if a != b:
                yield self._between(a, b, self.closure.terms[b])
