"""What views cost, as classes that a ChoiceGraph gets beside those of the e-graph.

Vela 5.1 removes every RESHAPE (RemoveReshape in regor's graphir_optimiser.cpp, and measured): a tensor with one reader takes the
shape that the RESHAPE gives it, but one with several readers is copied, in its own shape, for each RESHAPE to another one. So a value that
is read in k shapes is copied k - 1 times if it is viewed from each shape to the next, in all of them but the last, and the
producer's shape may be any of them (`Choices.tensor_graph` writes it so). Outputs of the graph count as readers here.

Classes that views connect hold one value. For each shape that it may be read in there is a class with one node, which its readers need and
which costs a copy in this shape; another class names the last shape, which costs nothing. A value that is computed twice, in
two shapes, is charged one copy too much. Constants are viewed at no cost, and so is the widening RESCALE, which every reader has its own of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from networkx.utils import UnionFind

from eqsat.target.staging import Steps

Shape = tuple[int, ...]


@dataclass(slots=True)
class Storage:
    """rows: classes to append, pairs: {(node, node): delta}; reads: per node the classes to read beside its operands; roots: more roots.
    last: {class: the class that names the last shape of its value}; shapes: {node of such a class: the shape}."""

    rows: list[list[tuple[float, list[int]]]] = field(default_factory=list)
    pairs: dict[tuple[int, int], float] = field(default_factory=dict)
    reads: dict[int, list[int]] = field(default_factory=dict)
    roots: list[int] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)
    shapes: dict[int, Shape] = field(default_factory=dict)


def viewed_first(steps: Steps) -> Shape | None:
    """The shape that a movement views its operand in before it moves anything."""
    return dict(steps[0][1])["shape"] if len(steps) > 1 and steps[0][0] == "reshape" else None


def storage(
    shapes: Sequence[Shape],
    operands: Sequence[Sequence[int]],
    owner: Sequence[int],
    steps: Sequence[Steps],
    copied: dict[int, float],
    exempt: Iterable[int],
    roots: Iterable[int],
) -> Storage:
    """For classes of `shapes` and the nodes that may be chosen: their operands, classes and steps. copied: {node that begins with a view:
    cycles of a copy}; exempt: classes with values that are viewed at no cost."""
    value_of = UnionFind(range(len(shapes)))  # classes that views connect
    views = {n for n, chain in enumerate(steps) if [op for op, _ in chain] == ["reshape"]}
    for n in copied.keys() & views:
        value_of.union(owner[n], operands[n][0])
    price: dict[int, dict[Shape, float]] = {}
    for n, cycles in copied.items():
        price.setdefault(value_of[operands[n][0]], {})[shapes[operands[n][0]]] = cycles
    for c in exempt:
        price.pop(value_of[c], None)
    readers: dict[int, dict[Shape, list[int | None]]] = {}  # None: the outside world
    for n, classes in enumerate(operands):
        for c in dict.fromkeys(classes) if n not in views else ():
            readers.setdefault(value_of[c], {}).setdefault(viewed_first(steps[n]) or shapes[c], []).append(n)
    for c in roots:
        readers.setdefault(value_of[c], {}).setdefault(shapes[c], []).append(None)
    out, number = Storage(), len(operands)
    for value, by_shape in readers.items():
        if value not in price or len(by_shape) < 2:
            continue
        names, most = len(shapes) + len(out.rows), max(price[value].values())
        out.rows.append([(0.0, [])] * len(by_shape))
        out.last[value] = names
        for k, (shape, who) in enumerate(by_shape.items()):
            cls, cycles = len(shapes) + len(out.rows), price[value].get(shape, most)
            out.rows.append([(cycles, [names])])
            out.pairs[number + len(by_shape) + k, number + k] = -cycles
            out.shapes[number + k] = shape
            for n in who:
                if n is None:
                    out.roots.append(cls)
                else:
                    out.reads.setdefault(n, []).append(cls)
        number += 2 * len(by_shape)
    out.last = {c: out.last[value_of[c]] for c in range(len(shapes)) if value_of[c] in out.last}
    return out
