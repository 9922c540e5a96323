"""Costs of views and of parts, as classes that a ChoiceGraph gets besides those of the e-graph.

Vela removes every RESHAPE (RemoveReshape in regor's graphir_optimiser.cpp).
A tensor with one reader takes the shape of that RESHAPE.
A tensor with several readers is copied, in its own shape, for each RESHAPE to another shape.
So a value that is read in k shapes is copied k - 1 times if each shape is viewed from the one before.
The copies are in all shapes but the last, and the producer's shape may be any of them.
Outputs of the graph count as readers here.

Classes that views connect hold one value.
For each shape in which it may be read there is a class with one node.
Its readers need this class, which costs a copy in this shape.
Another class names the last shape, which costs nothing.
A value that is computed twice, in two shapes, is charged one copy too much.
Views of constants cost nothing.
Nor do those of the widening RESCALE, since every reader has its own.

Most operators read a part of a tensor in place, and then the SLICE costs nothing (`cost_models/fusion.py`).
Other readers, and outputs of the graph, need a copy, which Vela makes once for all of them.
A class with one node stands for it, which reads the value, and costs a copy if the value is a SLICE.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from networkx.utils import UnionFind

from cost_models.protocol import CostModel
from eqsat.choice.candidates import Candidate
from eqsat.tensor.types import Shape


@dataclass(slots=True)
class StorageCosts:
    """The classes and terms that views add to a choice graph.

    rows: classes to append.
    pairs: {(node, node): change of the cost in cycles}.
    reads: {node: classes that it reads besides its operands}.
    roots: further roots.
    last: {class: the class that names the last shape of its value}.
    shapes: {node of such a class: the shape}.
    """

    rows: list[list[tuple[float, list[int]]]] = field(default_factory=list)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    reads: dict[int, list[int]] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)


def view_costs(shapes: Sequence[Shape], candidates: Sequence[Candidate], roots: Sequence[int]) -> StorageCosts:
    """Returns the costs of views. shapes: of each class. roots: the classes that are outputs."""
    viewing = [c for c in candidates if c.price.copied is not None and c.usable]
    value_of = UnionFind(range(len(shapes)))
    for c in viewing:
        if c.is_view:
            value_of.union(c.cls, c.operands[0])
    # {value: {shape: cycles of a copy in it}}, without values whose views cost nothing or have no price
    copies: dict[int, dict[Shape, float]] = {}
    for c in viewing:
        if c.price.copied is not None and math.isfinite(c.price.copied):
            copies.setdefault(value_of[c.operands[0]], {})[shapes[c.operands[0]]] = c.price.copied
    for c in candidates:
        if c.is_widening or c.enode.op == "const":
            copies.pop(value_of[c.cls], None)
    # {value: {shape: its readers, as numbers of candidates; None is an output of the graph}}
    readers: dict[int, dict[Shape, list[int | None]]] = {}
    for n, c in enumerate(candidates):
        for operand in dict.fromkeys(c.operands) if not c.is_view else ():
            by_shape = readers.setdefault(value_of[operand], {})
            by_shape.setdefault(c.viewed_first or shapes[operand], []).append(n)
    for cls in roots:
        readers.setdefault(value_of[cls], {}).setdefault(shapes[cls], []).append(None)
    out, n_nodes = StorageCosts(), len(candidates)
    for value, by_shape in readers.items():
        if value in copies and len(by_shape) > 1:
            _charge(out, value, by_shape, copies[value], len(shapes), n_nodes)
            n_nodes += 2 * len(by_shape)
    out.last = {c: out.last[value_of[c]] for c in range(len(shapes)) if value_of[c] in out.last}
    return out


def _charge(
    out: StorageCosts,
    value: int,
    by_shape: Mapping[Shape, Sequence[int | None]],
    copies: Mapping[Shape, float],
    n_classes: int,
    n_nodes: int,
) -> None:
    """Appends the classes of one value.

    The class that names its last shape has a node per shape, numbered from `n_nodes`.
    Each shape has a class with one node, whose cost the node of the last shape cancels.
    """
    names, most = n_classes + len(out.rows), max(copies.values())
    out.rows.append([(0.0, [])] * len(by_shape))
    out.last[value] = names
    for k, (shape, readers) in enumerate(by_shape.items()):
        cls, cycles = n_classes + len(out.rows), copies.get(shape, most)
        out.rows.append([(cycles, [names])])
        out.pairs[n_nodes + len(by_shape) + k, n_nodes + k] = -cycles
        out.shapes[n_nodes + k] = shape
        for n in readers:
            if n is None:
                out.roots.append(cls)
            else:
                out.reads.setdefault(n, []).append(cls)


def add_part_costs(
    out: StorageCosts,
    candidates: Sequence[Candidate],
    nodes: Sequence[Sequence[int]],
    roots: Collection[int],
    model: CostModel,
) -> None:
    """Appends the copies of parts to `out`, which has those of views. nodes: the candidates of each class."""
    parts = {
        cls: found
        for cls, members in enumerate(nodes)
        if (found := [n for n in members if candidates[n].is_part and candidates[n].usable and candidates[n].cycles])
    }
    copying: dict[int, list[int]] = {cls: [] for cls in parts}
    for n, reader in enumerate(candidates):
        for cls in dict.fromkeys(reader.operands) if reader.usable else ():
            if cls in parts and not _reads_in_place(reader, candidates[parts[cls][0]], model):
                copying[cls].append(n)
    n_nodes = len(candidates) + sum(map(len, out.rows))
    for cls, readers in copying.items():
        if not readers and cls not in roots:
            continue
        copy = len(nodes) + len(out.rows)
        out.rows.append([(0.0, [cls])])
        out.pairs.update({(n_nodes, part): candidates[part].cycles for part in parts[cls]})
        n_nodes += 1
        for n in readers:
            out.reads.setdefault(n, []).append(copy)
        if cls in roots:
            out.roots.append(copy)


def _reads_in_place(reader: Candidate, part: Candidate, model: CostModel) -> bool:
    """Whether a reader reads a SLICE in place; a movement that begins with a view does not."""
    if reader.viewed_first:
        return False
    fusion = model.fusion(reader.priced, part.priced, ())
    return fusion is not None and fusion.of_read == 1.0
