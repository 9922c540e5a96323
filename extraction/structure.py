"""What solvers are told about a graph in normal form beyond its definition: knots of classes, and surcharges as steps.

A *knot* is a strongly connected component of the class graph: the classes that can be computed from each other, such as one value in
several layouts. Whatever is chosen, the first class of a knot to be computed is computed by an *entry*, an e-node that reads
nothing of the knot. Relaxations do not see that by themselves: half of each of two classes, each read from the other, would do.
"""

from __future__ import annotations

from dataclasses import dataclass

from . import exact
from .components import strong_components
from .graph import ChoiceGraph


@dataclass(frozen=True)
class Knot:
    """A strongly connected component of two or more classes, or a single class.

    classes : its classes
    entries : its e-nodes that read no class of it; if the knot is active, one of them is chosen
    detours : knot that entries read -> the entries that do not read it; if the knot is active, so is that knot, or one of these is chosen
    """

    classes: tuple[int, ...]
    entries: tuple[int, ...]
    detours: dict[int, tuple[int, ...]]


def knots(graph: ChoiceGraph) -> list[Knot]:
    """All knots, each after those that it can reach."""
    components = strong_components(exact.successors(graph))
    number = {c: i for i, classes in enumerate(components) for c in classes}
    found = []
    for i, classes in enumerate(components):
        reads = {n: {number[d] for d in graph.children(n)} for c in classes for n in graph.class_nodes(c)}
        entries = tuple(n for n, knots_read in reads.items() if i not in knots_read)
        detours = {
            j: tuple(n for n in entries if j not in reads[n]) for j in sorted(set().union(*(reads[n] for n in entries)))
        }
        found.append(Knot(tuple(classes), entries, detours))
    return found


@dataclass(frozen=True)
class Step:
    """Part of a surcharge: `high - low` is due if one of `readers`, all of one class, and one of `read`, all of another, are chosen.

    free : the other e-nodes of the class that is read
    low  : what the surcharge has come to by lower steps
    high : what it comes to with this one; inf if the two may not be chosen together
    """

    readers: tuple[int, ...]
    read: tuple[int, ...]
    free: tuple[int, ...]
    low: float
    high: float


def steps(graph: ChoiceGraph) -> list[Step]:
    """The surcharges of a graph as steps: what a reader pays for an e-node is the sum of the steps that name both.

    Readers of one class whose steps are alike share them, because at most one of them is chosen.
    """
    owner = graph.node_class.tolist()
    groups: dict[tuple[int, int, tuple[int, ...], float, float], list[int]] = {}
    for (n, d), paid in exact.surcharges(graph).items():
        levels = sorted(set(paid.values()))
        for low, high in zip([0.0, *levels], levels):
            read = tuple(m for m in graph.class_nodes(d) if paid.get(m, 0.0) >= high)
            groups.setdefault((owner[n], d, read, low, high), []).append(n)
    return [
        Step(tuple(readers), read, tuple(m for m in graph.class_nodes(d) if m not in read), low, high)
        for (_, d, read, low, high), readers in groups.items()
    ]
