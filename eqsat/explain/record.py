"""The record of a run: its graph saturated again, by rules that log their instances."""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from typing import Any, NamedTuple

from eqsat.choice.choice import Choices
from eqsat.egraph.encoding import ENode, engine_for, load
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.kinds import OPERANDS, Call, LeafValue, constructor
from eqsat.egraph.log import Instance, Row, is_enode, row_of
from eqsat.egraph.rule import Rule
from eqsat.ground.files import InputError
from eqsat.options.spellings import for_target
from eqsat.rules.presets import PRESETS
from eqsat.search.result import Run
from eqsat.tensor.graph import Node, TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.ops.op import numbers
from eqsat.tensor.types import Type

# The congruence closure of logged instances: what is equal since when, and why.
#
# Each class that ever was has a term: the e-node that made it, under the number of the class.
# Two terms are equal by an instance of a rule, or because they are calls of equal operands.
# Each equality has a time, and needs only those before it, so that no proof is circular.

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

    links: links in order, each with the proofs that it needs.
    needs: proofs that the operands of the last link's end equal those of `end`.
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

    terms: {class: the e-node that made it, as it was then}. equalities: those that made two classes one, by time.
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
        """Returns the proof, by the first equalities, that a term equals an e-node of its class. Raises KeyError."""
        proof = self._prove_between(first, self._calls[self.at(end)[:3]], end)
        while self._open:
            self._fill(*self._open.pop())
        return proof

    def _prove_between(self, first: int, last: int, end: Row) -> Proof:
        """Returns the proof that two terms are equal; `end` is the last one, perhaps with other, equal operands."""
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


def type_text(t: Type | None) -> str:
    return "" if t is None else f"{t.dtype} [{numbers(t.shape)}]"


def move_text(m: Move) -> str:
    """Returns a movement as a single TRANSPOSE or RESHAPE, or by the order of its atomic axes."""
    if m.is_view:
        return f"reshape[{numbers(m.out_shape)}]"
    direct = m.direct()
    if direct is not None:
        return f"transpose[{numbers(direct)}]"
    sizes, perm = m.squeeze()
    return f"reorder[{'x'.join(map(str, sizes))} by {numbers(perm)}, to {numbers(m.out_shape)}]"


def value_text(value: Any) -> str:
    """Returns the text of an e-node's interned attributes."""
    if isinstance(value, Move):
        return move_text(value)
    if isinstance(value, LeafValue):
        node = value.node
        return f"const {type_text(Type(node.shape, node.dtype))}" if value.is_const else OPS[node.op].text(node.attrs)
    return OPS[value.op].text(value.attrs) if isinstance(value, Call) else str(value)


def enode_text(e: ENode) -> str:
    return move_text(e.move) if e.move is not None else OPS[e.op].text(e.attrs)


#: Depth of a term below which operands are only named.
_DEEPEST = 4


class ExplainError(InputError):
    """An object that cannot be explained; the message says why."""


class Record:
    """The terms of a saturation of `source`, and the proofs of their equalities. Raises EngineError.

    loaded: {node of the source: its term}. nodes: {class: nodes of the source in it}.
    values: the attributes of e-nodes, by number.
    """

    def __init__(self, source: TensorGraph, rules: Sequence[Rule], budget: Budget):
        self.source = source
        self.closure = Closure()
        self.loaded: dict[int, int] = {}
        number: dict[Any, int] = {}
        logs = {r.name: r for r in rules}
        with engine_for(rules, logged=True) as engine:
            self.values = engine.intern
            load(engine, source, source.live())
            for name, args, cls in engine.rows(lambda name: name[0].isupper(), number):
                if is_enode(name):
                    self.closure.add(row_of(name, args, cls))
                else:
                    self.loaded[args[0]] = cls

            def watch(rule: str) -> None:
                for _, values, _ in engine.rows(f"log.{rule}".__eq__, number):
                    self.closure.apply(logs[rule].log.instance(values, self.closure.terms))

            engine.saturate(budget, watch)
            types = engine.rows("type".__eq__, number)
        self._types: dict[int, Type] = {self.closure.find(args[0]): self.values[t] for _, args, t in types}
        self.nodes: dict[int, list[int]] = defaultdict(list)
        for n in sorted(self.loaded):
            self.nodes[self.final(n)].append(n)

    def explicit(self, node: int) -> Row:
        """Returns the e-node of a node of the source, as loaded."""
        return self.closure.terms[self.loaded[node]]

    def final(self, node: int) -> int:
        """Returns the final class of a node of the source."""
        return self.closure.find(self.loaded[node])

    def type_of(self, cls: int) -> Type:
        """Returns the shape and dtype of a class."""
        return self._types[self.closure.find(cls)]

    def value(self, row: Row) -> Any:
        """Returns the operator, movement or leaf of an e-node."""
        return self.values[row.attributes[0]]

    def name(self, cls: int, time: int) -> str:
        """Returns the name of a class before a time: its first source node, a constant, or a number of its own."""
        find = self.closure.find
        nodes = self.nodes.get(find(cls), ())
        node = next((n for n in nodes if find(self.loaded[n], time) == find(cls, time)), None)
        if node is None:
            return f"e{cls}"
        source = self.source.nodes[node]
        return f"const{list(source.shape)}".replace(" ", "") if source.op == "const" else f"n{node}"

    def text(self, row: Row, time: int, inside: Collection[Row] = (), depth: int = 0) -> str:
        """Returns an e-node as a term before a time; `inside` are e-nodes of operands that are written out."""
        what = value_text(self.value(row)) + ("" if row.function in (*OPERANDS, "Opq") else " fitted to its operand")
        inner = []
        for c in row.operands:
            # an e-node that reads its own class says nothing
            below = next((r for r in inside if r.cls == c), None) if depth < _DEEPEST else None
            rest = [r for r in inside if r.cls != c]
            inner.append(
                self.text(below, time, rest, depth + 1) if below and c not in below.operands else self.name(c, time)
            )
        if len(inner) > 6:
            inner = [*inner[:3], f"... {len(inner) - 5} more", *inner[-2:]]
        return f"{what}({', '.join(inner)})" if inner else what

    def row(self, e: ENode, t: Type, operands: Sequence[int]) -> Row | None:
        """Returns the final form of an e-node of another saturation, or None. operands: its operands in this record."""
        value: LeafValue | Move | Call
        if e.op in ("input", "const"):
            name, value = "Leaf", LeafValue(Node(e.op, (), e.attrs, t.shape, t.dtype))
        elif e.move is not None:
            name, value = "Move", e.move
        else:
            name, value = constructor(e.op, len(operands)), Call(e.op, e.attrs)
        known = self.values.find(value)
        term = None if known is None else self.closure.term(Row(name, (known,), tuple(operands), 0))
        return None if term is None else self.closure.at(self.closure.terms[term])

    def rows_of(self, choices: Choices, chosen: Mapping[int, int]) -> dict[int, Row]:
        """Returns {class of a choice: its e-node}. Raises ExplainError if the e-graphs differ."""
        at = {c: self.final(n) for n, c in choices.frozen.handle.items()}
        out: dict[int, Row] = {}
        reads = {cls: choices.candidates[n].operands for cls, n in chosen.items()}
        for cls in TopologicalSorter(reads).static_order():
            e = choices.candidates[chosen[cls]].enode
            row = self.row(e, choices.frozen.type_of(e.cls), [out[c].cls for c in reads[cls]])
            if row is None or at.get(choices.classes[cls], row.cls) != row.cls:
                raise ExplainError(
                    "saturating again gave another e-graph (another egglog, or other rules): "
                    "this run cannot be explained here"
                )
            out[cls] = row
        return out


def record(run: Run, own: Sequence[Rule]) -> Record:
    """Returns the record of a run; `own`: the user's own rules that took part. Raises ExplainError."""
    known = {r.name: r for rules in (*PRESETS.values(), own) for r in rules}
    if missing := [n for n in run.rules if n not in known]:
        raise ExplainError(
            f"the run used rules that are not at hand: {', '.join(missing)}; give them (in Python: rules=)"
        )
    done = run.choices.frozen.saturation.iterations
    # the record has to get at least as far as the run, whatever stopped that
    nodes = 2 * max((i.nodes for i in done), default=1000)
    budget = Budget(nodes=nodes, seconds=3600.0, passes=max(1, len(done)), matches=sys.maxsize)
    try:
        return Record(run.source, for_target((known[n] for n in run.rules), run.target), budget)
    except EngineError as e:
        raise ExplainError(f"the saturation cannot be repeated: {e}") from e
