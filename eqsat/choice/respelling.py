"""A choice as data, and its translation into the e-graph of a graph with equal structure.

Such a graph is the same architecture with other weights and scales.
Their e-graphs differ in constants, and where a rule that depends on values matches in only one of them.
So a choice is written from the outputs down to inputs and constants. An e-node is found again in the class that its
reader reads, by its signature, that is, all but values; where several differ in values alone, by its rank among them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from graphlib import TopologicalSorter
from typing import Any

from cost_models.protocol import Price
from eqsat.choice.candidates import Candidate
from eqsat.choice.compiled import Compiled
from eqsat.choice.writer import GraphWriter, with_needed_copies
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
    nodes = ((n.op, _mask(n.attrs), n.inputs, n.shape, n.dtype) for n in graph.nodes)
    return digest(repr(part).encode() for part in [*nodes, graph.inputs, graph.outputs])


def _mask(attrs: Attrs) -> list[Any]:
    """Returns attributes, with only the lengths of those that come from values."""
    return [(k, _length(v) if k in _OF_VALUES else v) for k, v in attrs]


def _length(value: Any) -> Any:
    if isinstance(value, Const):
        return value.data.shape
    return len(value) if isinstance(value, tuple | bytes) else None


def signer(frozen: Frozen) -> Callable[[ENode], str]:
    """Returns the function that gives signatures: all but values, and what the operands compute of the source.

    Of what depends on no input only the type counts, since values decide which of that is equal.
    """
    varying = set(frozen.source.inputs)
    for n, node in enumerate(frozen.source.nodes):
        if varying.intersection(node.inputs):
            varying.add(n)
    computed = {c: n for n, c in sorted(frozen.handle.items(), reverse=True) if n in varying}

    def signature(e: ENode) -> str:
        operands = [(frozen.types[c], computed.get(c)) for c in e.children]
        return digest([repr((e.op, _mask(e.attrs), e.move, operands)).encode()])

    return signature


def describe(best: Compiled) -> str:
    """Returns an extracted graph's choice as JSON; "" for a given graph, or if an operator was priced as others."""
    choices = best.choices
    if choices is None:
        return ""
    frozen = choices.frozen
    signature, rows = signer(frozen), dict[str, Any]()
    shapes = {choices.classes[c]: shape for c, shape in choices.last_shapes(best.choice).items()}
    for c in (choices.candidates[n] for n in choices.of_classes(best.choice).values()):
        e = c.enode
        if e.op in _LEAVES:
            continue
        if not e.move and c.steps != _own(e):
            return ""
        own = signature(e)
        rank = next(k for k, other in enumerate(alike(frozen.classes[e.cls], own, signature)) if other is e)
        movement = [[op, dict(attrs)] for op, attrs in c.steps] if e.move else None
        rows[str(e.cls)] = own, rank, movement, e.children
    outputs = [frozen.handle[n] for n in frozen.source.outputs]
    return json.dumps({"rows": rows, "outputs": outputs, "shapes": shapes})


def _own(e: ENode) -> Steps:
    return ((e.op, e.attrs),)


def respell(known: str, frozen: Frozen, family: Family) -> TensorGraph | None:
    """Returns the graph of a choice that `describe` wrote, with the constants of another e-graph.

    It is None if the e-graphs differ in what is chosen, or if the text is not one of `describe`.
    """
    try:
        data, signature = json.loads(known), signer(frozen)
        chosen, shape_of = dict[int, tuple[ENode, Any]](), dict[int, tuple[int, ...]]()
        left = list(zip(data["outputs"], (frozen.handle[n] for n in frozen.source.outputs), strict=True))
        while left:
            there, cls = left.pop()
            if cls in chosen:  # classes that were two may be one
                continue
            own, rank, movement, operands = data["rows"].get(str(there), ("", 0, None, ()))
            e = alike(frozen.classes[cls], own, signature)[rank]
            chosen[cls] = e, movement
            if shape := data["shapes"].get(str(there)):
                shape_of[cls] = tuple(shape)
            left += zip(operands, e.children, strict=True)
        TopologicalSorter({cls: e.children for cls, (e, _) in chosen.items()}).prepare()  # it reads itself nowhere
        classes = sorted({*chosen, *frozen.handle.values()})
        position = {c: k for k, c in enumerate(classes)}
        found = [_candidate(e, movement, position) for e, movement in chosen.values()]
        shapes = {position[c]: shape for c, shape in shape_of.items()}
        written = GraphWriter(frozen, classes, found, shapes, {c.cls: n for n, c in enumerate(found)}).write()
        return with_needed_copies(*written, remedies(Copy, family))[0]
    except (LookupError, ValueError, TypeError, AttributeError, OverflowError, RecursionError, GraphError):
        return None


def alike(nodes: Sequence[ENode], own: str, signature: Callable[[ENode], str]) -> list[ENode]:
    """Returns the e-nodes of a class that have a signature; "": inputs and constants."""
    return [e for e in nodes if (signature(e) == own if own else e.op in _LEAVES)]


def _candidate(e: ENode, movement: Any, position: dict[int, int]) -> Candidate:
    steps = _own(e) if movement is None else tuple((op, _attributes(attrs)) for op, attrs in movement)
    return Candidate(e, position[e.cls], tuple(position[c] for c in e.children), Price(0.0, steps))


def _attributes(attrs: dict[str, list[int]]) -> Attrs:
    """Returns the attributes of a TRANSPOSE or RESHAPE from JSON."""
    return attrs_of({name: tuple(value) for name, value in attrs.items()})
