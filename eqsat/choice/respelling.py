"""A choice as data, and its translation into the e-graph of a graph with equal structure.

Such a graph is the same architecture with other weights and scales.
Their e-graphs differ in constants alone, class by class and e-node by e-node.
The exception is a rule that depends on values and matches in only one of them.
Equal outlines (`Outline`) show that the e-graphs match, and which classes correspond.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from graphlib import TopologicalSorter
from typing import Any

from cost_models.protocol import Price
from eqsat.choice import copying
from eqsat.choice.candidates import Candidate
from eqsat.choice.compiled import Compiled
from eqsat.choice.needed_copies import with_needed_copies
from eqsat.choice.signature import with_inputs_read
from eqsat.choice.writer import GraphWriter
from eqsat.egraph.encoding import ENode, Frozen
from eqsat.target import Family
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Attrs, Const, GraphError, Steps, attrs_of
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.defects import Copy, remedies

#: Operators that are not chosen but follow from their readers.
_LEAVES = ("input", "const")
#: Attributes that come from weights and calibration.
_OF_VALUES = frozenset({"value", "multiplier", "shift", "in_zp", "out_zp", "w_zp", "min_val", "max_val", "table"})


def structure(graph: TensorGraph) -> str:
    """Returns a digest of a graph without its constants, scales and zero points."""
    nodes = ((n.op, _masked(n.attrs), n.inputs, n.shape, n.dtype) for n in graph.nodes)
    return digest(repr(part).encode() for part in [*nodes, graph.inputs, graph.outputs])


@dataclass(frozen=True, slots=True)
class Outline:
    """An e-graph without constants, scales and zero points: hashes of classes and e-nodes.

    classes: hash of each class, which depends on its surroundings.
    heads: {id of an e-node: hash of its operator and attributes}.
    E-graphs that differ in constants alone have equal hashes, whatever the numbers of their classes.
    """

    classes: list[int]
    heads: dict[int, int]

    @staticmethod
    def of(frozen: Frozen) -> Outline:
        """Returns the outline by colour refinement (Weisfeiler and Leman).

        A class starts with its type and the source nodes that it computes.
        Each round adds the operands of its e-nodes, and the e-nodes that read it.
        """
        heads = {id(e): _number(repr((e.op, _masked(e.attrs), e.move))) for nodes in frozen.classes for e in nodes}
        computed: list[list[int]] = [[] for _ in frozen.classes]
        for n, c in sorted(frozen.handle.items()):
            computed[c].append(n)
        names = [_number(repr((t, nodes))) for t, nodes in zip(frozen.types, computed, strict=True)]
        while True:
            known = len(set(names))
            seen: list[list[int]] = [[] for _ in names]
            for e in (e for nodes in frozen.classes for e in nodes):
                seen[e.cls].append(hash((heads[id(e)], *(names[c] for c in e.children))))
                for k, c in enumerate(e.children):
                    seen[c].append(hash((heads[id(e)], k, names[e.cls])))
            names = [hash((name, *sorted(around))) for name, around in zip(names, seen, strict=True)]
            if len(set(names)) == known:
                return Outline(names, heads)

    @property
    def digest(self) -> str:
        """The digest of all classes."""
        return digest(str(name).encode() for name in sorted(self.classes))

    def by_name(self) -> dict[int, int]:
        """Returns {hash: class}, for classes whose hash is unique."""
        numbers = Counter(self.classes)
        return {name: c for c, name in enumerate(self.classes) if numbers[name] == 1}

    def members(self, nodes: Sequence[ENode]) -> list[tuple[int, int]]:
        """Returns (hash, rank) of each e-node of a class.

        The rank counts e-nodes of equal hash: 0, 1 and so on.
        """
        seen: Counter[int] = Counter()
        out = []
        for e in nodes:
            name = hash((self.heads[id(e)], *(self.classes[c] for c in e.children)))
            out.append((name, seen[name]))
            seen[name] += 1
        return out


def _number(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)


def _masked(attrs: Attrs) -> list[Any]:
    """Returns attributes, with only the lengths of those that come from values."""
    return [(k, _length(v) if k in _OF_VALUES else v) for k, v in attrs]


def _length(value: Any) -> Any:
    if isinstance(value, Const):
        return value.data.shape
    return len(value) if isinstance(value, tuple | bytes) else None


def digest(parts: Iterable[bytes]) -> str:
    """Returns 32 hexadecimal digits of a hash of parts; it depends on where each part ends."""
    h = hashlib.sha256()
    for part in parts:
        h.update(len(part).to_bytes(8, "little") + part)
    return h.hexdigest()[:32]


def told(best: Compiled, exact: Frozen) -> str:
    """Returns the choice of a graph extracted from the exact e-graph, as JSON.

    Returns "" if the graph comes from another e-graph, or has rows in stripes.
    Returns "" if one of its operators was priced as others, or if classes cannot be told apart.
    """
    choices = best.choices
    if choices is None or choices.frozen is not exact or best.parts_of:
        return ""
    outline, rows = Outline.of(exact), []
    own_name, chosen = outline.by_name(), choices.of_classes(best.choice)
    for candidate in (choices.candidates[n] for n in chosen.values()):
        if candidate.enode.op in _LEAVES:
            continue
        own = candidate.steps[len(copying.STEPS) :] if candidate.copied else candidate.steps
        movement = [[op, dict(attrs)] for op, attrs in own] if candidate.enode.move else None
        if movement is None and own != _own(candidate.enode):
            return ""
        cls = candidate.enode.cls
        name, place = outline.classes[cls], next(k for k, e in enumerate(exact.classes[cls]) if e is candidate.enode)
        if name not in own_name:
            return ""
        rows.append([name, outline.members(exact.classes[cls])[place], movement, candidate.copied])
    shapes = [
        [outline.classes[choices.classes[c]], s] for c, s in choices.last_shapes(best.choice).items() if c in chosen
    ]
    return json.dumps({"outline": outline.digest, "nodes": rows, "shapes": shapes})


def is_ordered(best: Compiled) -> bool:
    """Whether an extracted graph runs in another order than its choice is written in."""
    return best.choices is not None and dumps(best.choices.tensor_graph(best.choice)[0]) != best.tosa


def _own(e: ENode) -> Steps:
    return ((e.op, e.attrs),)


def respelled(known: str, frozen: Frozen, family: Family) -> TensorGraph | None:
    """Returns the graph of a choice that `told` wrote, with the constants of another e-graph.

    Returns None if the e-graphs differ, or if the text is not one of `told`.
    """
    try:
        data, outline = json.loads(known), Outline.of(frozen)
        if data["outline"] != outline.digest:
            return None
        class_of = outline.by_name()
        rows = []
        for name, member, movement, copied in data["nodes"]:
            nodes = frozen.classes[class_of[name]]
            rows.append((nodes[outline.members(nodes).index(tuple(member))], movement, tuple(copied)))
        # a forged choice may read itself
        TopologicalSorter({e.cls: e.children for e, *_ in rows}).prepare()
        computed = {e.cls for e, *_ in rows}
        needed = {c for e, *_ in rows for c in e.children} | {frozen.handle[n] for n in frozen.source.outputs}
        rows += [(_leaf(frozen.classes[c]), None, ()) for c in sorted(needed - computed)]
        classes = sorted({c for e, *_ in rows for c in (e.cls, *e.children)} | set(frozen.handle.values()))
        position = {c: k for k, c in enumerate(classes)}
        found = [_candidate(e, movement, copied, position) for e, movement, copied in rows]
        shapes = {position[class_of[name]]: tuple(shape) for name, shape in data["shapes"]}
        choice = {c.cls: n for n, c in enumerate(found)}
        written = GraphWriter(frozen, classes, found, shapes, choice).written()
        return with_inputs_read(*with_needed_copies(*written, remedies(Copy, family)), frozen.source)[0]
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, GraphError):
        return None


def _leaf(nodes: Sequence[ENode]) -> ENode:
    """Returns the input or constant among the e-nodes of a class, or raises LookupError."""
    found = [e for e in nodes if e.op in _LEAVES]
    return found[0]


def _candidate(e: ENode, movement: Any, copied: tuple[int, ...], position: dict[int, int]) -> Candidate:
    own = _own(e) if movement is None else tuple((op, _attributes(attrs)) for op, attrs in movement)
    steps: Steps = (*copying.STEPS, *own) if copied else own
    return Candidate(e, position[e.cls], tuple(position[c] for c in e.children), Price(0.0, steps), copied=copied)


def _attributes(attrs: dict[str, list[int]]) -> Attrs:
    """Returns the attributes of a TRANSPOSE or RESHAPE from JSON."""
    return attrs_of({name: tuple(value) for name, value in attrs.items()})
