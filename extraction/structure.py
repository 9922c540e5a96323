"""Structure of a graph in normal form, for solvers: components, and surcharges by levels.

A *component* is a strongly connected component of the class graph.
Its classes can be computed from each other, such as one value in several layouts.
The first class of an active component is computed by an *entry*: an e-node that reads no class of the component.
Linear relaxations do not see that by themselves.
Half of each of two classes, each read from the other, would satisfy them.
"""

from __future__ import annotations

from dataclasses import dataclass

from extraction import exact
from extraction.components import strong_components
from extraction.graph import ChoiceGraph


@dataclass(frozen=True)
class Component:
    """A strongly connected component of two or more classes, or a single class.

    classes : its classes
    entries : its e-nodes that read no class of it; if the component is active, one of them is chosen
    avoiding: {component that entries read: the entries that do not read it}

    If this component is active, so is each component in `avoiding`, or one of its entries is chosen.
    """

    classes: tuple[int, ...]
    entries: tuple[int, ...]
    avoiding: dict[int, tuple[int, ...]]


def components(graph: ChoiceGraph) -> list[Component]:
    """Returns all components, each after those that it can reach."""
    strong = strong_components(exact.successors(graph))
    number = {c: i for i, classes in enumerate(strong) for c in classes}
    found = []
    for i, classes in enumerate(strong):
        reads = {n: {number[d] for d in graph.children(n)} for c in classes for n in graph.class_nodes(c)}
        entries = tuple(n for n, read in reads.items() if i not in read)
        avoiding = {
            j: tuple(n for n in entries if j not in reads[n]) for j in sorted(set().union(*(reads[n] for n in entries)))
        }
        found.append(Component(tuple(classes), entries, avoiding))
    return found


@dataclass(frozen=True)
class SurchargeLevel:
    """One level of the surcharges between two classes.

    `high - low` is paid if one of `readers` and one of `read` are both chosen.

    readers: e-nodes of one class
    read   : e-nodes of another class
    low    : the surcharge up to the lower levels
    high   : the surcharge with this level
    """

    readers: tuple[int, ...]
    read: tuple[int, ...]
    low: float
    high: float


def surcharge_levels(graph: ChoiceGraph) -> list[SurchargeLevel]:
    """Returns the surcharges of a graph by levels.

    The surcharge of a reader for an e-node is the sum of the levels that name both.
    Readers of one class with equal levels share them, because at most one of them is chosen.
    """
    owner = graph.node_class.tolist()
    groups: dict[tuple[int, int, tuple[int, ...], float, float], list[int]] = {}
    for (n, d), paid in graph.pair_terms().items():
        levels = sorted(set(paid.values()))
        for low, high in zip([0.0, *levels], levels):
            read = tuple(m for m in graph.class_nodes(d) if paid.get(m, 0.0) >= high)
            groups.setdefault((owner[n], d, read, low, high), []).append(n)
    return [SurchargeLevel(tuple(readers), read, low, high) for (_, _, read, low, high), readers in groups.items()]
