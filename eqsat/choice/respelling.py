"""A choice as data, and its translation into the e-graph of a graph with equal structure.

Such a graph is the same architecture with other weights and scales.
Their e-graphs differ in constants, and where a rule that depends on values matches in only one of them.
So a choice is told from its inputs and constants upwards.
An e-node is found again by its operator, its attributes without values, and the classes that it reads.
Inputs, constants and e-nodes that differ in values alone are told apart by their surroundings (`Outline`).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Any

from cost_models.protocol import Price
from eqsat.choice.candidates import Candidate
from eqsat.choice.compiled import Compiled
from eqsat.choice.needed_copies import with_needed_copies
from eqsat.choice.signature import with_inputs_read
from eqsat.choice.writer import GraphWriter
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.ground.digest import digest
from eqsat.target import Family
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, Const, GraphError, Steps, attrs_of
from eqsat.vela.defects import Copy, remedies

#: Operators that are not chosen but follow from their readers.
_LEAVES = ("input", "const")
#: Attributes that come from weights and calibration.
_OF_VALUES = frozenset({"value", "multiplier", "shift", "in_zp", "out_zp", "w_zp", "min_val", "max_val", "table"})


def structure(graph: TensorGraph) -> str:
    """Returns a digest of a graph without its constants, scales and zero points."""
    nodes = ((n.op, _masked(n.attrs), n.inputs, n.shape, n.dtype) for n in graph.nodes)
    return digest(repr(part).encode() for part in [*nodes, graph.inputs, graph.outputs])


@dataclass(frozen=True)
class Outline:
    """An e-graph without constants, scales and zero points: hashes of classes and e-nodes.

    names: hash of each class, per round of refinement; that of round r tells what is up to r e-nodes away.
    heads: {id of an e-node: hash of its operator and attributes}.
    """

    frozen: Frozen
    names: list[list[int]]
    heads: dict[int, int]

    @staticmethod
    def of(frozen: Frozen) -> Outline:
        """Returns the outline by colour refinement (Weisfeiler and Leman).

        A class starts with its type and the first node of the source graph that it computes.
        Each round adds the operands of its e-nodes, and the e-nodes that read it.
        """
        heads = {id(e): _number(repr((e.op, _masked(e.attrs), e.move))) for nodes in frozen.classes for e in nodes}
        computed = {c: n for n, c in sorted(frozen.handle.items(), reverse=True)}
        names = [[_number(repr((t, computed.get(c)))) for c, t in enumerate(frozen.types)]]
        while True:
            last = names[-1]
            seen: list[list[int]] = [[] for _ in last]
            for e in (e for nodes in frozen.classes for e in nodes):
                seen[e.cls].append(hash((heads[id(e)], *(last[c] for c in e.children))))
                for k, c in enumerate(e.children):
                    seen[c].append(hash((heads[id(e)], k, last[e.cls])))
            names.append([hash((name, *sorted(around))) for name, around in zip(last, seen, strict=True)])
            if len(set(names[-1])) == len(set(last)):
                return Outline(frozen, names, heads)

    @cached_property
    def _unique(self) -> list[dict[int, int]]:
        """For each round {hash: class}, for classes whose hash is unique."""
        numbers = [Counter(names) for names in self.names]
        return [
            {name: c for c, name in enumerate(names) if of[name] == 1}
            for names, of in zip(self.names, numbers, strict=True)
        ]

    @cached_property
    def constants(self) -> dict[int, str]:
        """{class of a constant: its type}; which constants are equal depends on values."""
        found = enumerate(self.frozen.classes)
        return {c: repr(self.frozen.types[c]) for c, nodes in found if any(e.op == "const" for e in nodes)}

    @cached_property
    def _alike(self) -> dict[tuple[int, tuple[int | str, ...]], list[ENode]]:
        """The e-nodes of equal hash that read the same classes, or constants of the same types."""
        out: dict[tuple[int, tuple[int | str, ...]], list[ENode]] = {}
        for e in (e for nodes in self.frozen.classes for e in nodes):
            out.setdefault((self.heads[id(e)], self.reads(e.children)), []).append(e)
        return out

    def reads(self, classes: Iterable[int]) -> tuple[int | str, ...]:
        """Returns classes, with the types of constants in their place."""
        return tuple(self.constants.get(c, c) for c in classes)

    def place(self, cls: int) -> tuple[int, int] | None:
        """Returns the first round in which the hash of a class is unique, and that hash; None if there is none."""
        found = ((r, self.names[r][cls]) for r, unique in enumerate(self._unique) if self.names[r][cls] in unique)
        return next(found, None)

    def at(self, place: Sequence[int] | None) -> int | None:
        """Returns the class that has a place in this e-graph, None if there is none."""
        return self._unique[place[0]].get(place[1]) if place and 0 <= place[0] < len(self._unique) else None

    def rank(self, e: ENode) -> int:
        """Returns the number of an e-node among those of its class that differ from it in values alone."""
        found = (other for other in self._alike[self.heads[id(e)], self.reads(e.children)] if other.cls == e.cls)
        return next(k for k, other in enumerate(found) if other is e)

    def e_node(
        self, head: int, reads: Sequence[int | str], classes: Sequence[int | None], cls: int | None, rank: int
    ) -> ENode:
        """Returns an e-node by its hash, what it reads, and its rank.

        classes: those of the operands, as far as they are known.
        cls: its own class, if that is known.
        Raises LookupError if there is none, or if several classes have one.
        """
        found = [e for e in self._alike[head, tuple(reads)] if cls in (None, e.cls)]
        same = [e for e in found if all(known in (None, c) for known, c in zip(classes, e.children, strict=True))]
        if len(same) == 1:
            return same[0]
        own = {e.cls for e in same or found}
        if len(own) != 1:
            raise LookupError("no such e-node, or several")
        return [e for e in found if e.cls in own][rank]


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _masked(attrs: Attrs) -> list[Any]:
    """Returns attributes, with only the lengths of those that come from values."""
    return [(k, _length(v) if k in _OF_VALUES else v) for k, v in attrs]


def _length(value: Any) -> Any:
    if isinstance(value, Const):
        return value.data.shape
    return len(value) if isinstance(value, tuple | bytes) else None


def told(best: Compiled, exact: Frozen) -> str:
    """Returns the choice of a graph extracted from the exact e-graph, as JSON.

    Returns "" if the graph comes from another e-graph, or if one of its operators was priced as others.
    """
    choices = best.choices
    if choices is None or choices.frozen is not exact:
        return ""
    outline, rows, row_of = Outline.of(exact), list[list[Any]](), dict[int, int]()
    every = (choices.candidates[n] for n in choices.of_classes(best.choice).values())
    chosen = {c.enode.cls: c for c in every if c.enode.op not in _LEAVES}
    for cls in TopologicalSorter({cls: c.enode.children for cls, c in chosen.items()}).static_order():
        place, row_of[cls] = outline.place(cls), len(rows)
        if cls not in chosen:
            rows.append([place, outline.constants.get(cls)])
            continue
        candidate = chosen[cls]
        e, own = candidate.enode, candidate.steps
        movement = [[op, dict(attrs)] for op, attrs in own] if e.move else None
        if movement is None and own != _own(e):
            return ""
        operands = [row_of[c] for c in e.children]
        rows.append([place, outline.heads[id(e)], operands, outline.rank(e), movement])
    last = ((choices.classes[c], shape) for c, shape in choices.last_shapes(best.choice).items())
    return json.dumps({"nodes": rows, "shapes": [[row_of[c], shape] for c, shape in last if c in row_of]})


def _own(e: ENode) -> Steps:
    return ((e.op, e.attrs),)


def respelled(known: str, frozen: Frozen, family: Family) -> TensorGraph | None:
    """Returns the graph of a choice that `told` wrote, with the constants of another e-graph.

    Returns None if the e-graphs differ in what is chosen, or if the text is not one of `told`.
    """
    try:
        data, outline = json.loads(known), Outline.of(frozen)
        rows, reads, found_at = [], list[int | str](), list[int | None]()
        for place, *spelled in data["nodes"]:
            cls = outline.at(place)
            if len(spelled) > 1:
                head, operands, rank, movement = spelled
                e = outline.e_node(head, [reads[k] for k in operands], [found_at[k] for k in operands], cls, rank)
                rows.append((e, movement))
                cls = e.cls
            found_at.append(cls)
            reads.append(spelled[0] if cls is None else outline.constants.get(cls, cls))
        # classes that were two may be one
        TopologicalSorter({e.cls: e.children for e, _ in rows}).prepare()
        computed = {e.cls for e, _ in rows}
        needed = {c for e, _ in rows for c in e.children} | {frozen.handle[n] for n in frozen.source.outputs}
        rows += [(_leaf(frozen.classes[c]), None) for c in sorted(needed - computed)]
        classes = sorted({c for e, _ in rows for c in (e.cls, *e.children)} | set(frozen.handle.values()))
        position = {c: k for k, c in enumerate(classes)}
        found = [_candidate(e, movement, position) for e, movement in rows]
        shapes = {position[found_at[k]]: tuple(shape) for k, shape in data["shapes"] if found_at[k] is not None}
        choice = {c.cls: n for n, c in enumerate(found)}
        written = GraphWriter(frozen, classes, found, shapes, choice).written()
        return with_inputs_read(*with_needed_copies(*written, remedies(Copy, family)), frozen.source)[0]
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, GraphError):
        return None


def _leaf(nodes: Sequence[ENode]) -> ENode:
    """Returns the input or constant among the e-nodes of a class, or raises LookupError."""
    found = [e for e in nodes if e.op in _LEAVES]
    return found[0]


def _candidate(e: ENode, movement: Any, position: dict[int, int]) -> Candidate:
    steps = _own(e) if movement is None else tuple((op, _attributes(attrs)) for op, attrs in movement)
    return Candidate(e, position[e.cls], tuple(position[c] for c in e.children), Price(0.0, steps))


def _attributes(attrs: dict[str, list[int]]) -> Attrs:
    """Returns the attributes of a TRANSPOSE or RESHAPE from JSON."""
    return attrs_of({name: tuple(value) for name, value in attrs.items()})
