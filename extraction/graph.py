"""ChoiceGraph: e-classes, their candidate e-nodes, and the cost of each candidate.

A choice has one e-node for every e-class that the roots reach through it.
The cost of a choice is the sum of

* the cost of every chosen e-node, once, however many e-nodes read it;
* the delta of every pair (n, m) with n and m both chosen and n reading the class of m.

Costs have no unit of their own: the caller decides what they count (cycles, bytes, area).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray


class ExtractionError(Exception):
    """Base of every error of this package."""


class InvalidGraph(ExtractionError, ValueError):
    """The choice graph itself is malformed: an unknown class, a NaN cost, no root."""


class InvalidExtraction(ExtractionError, ValueError):
    """The choice is not an extraction: a class without an e-node, a forbidden e-node, a cycle.

    class_id: the e-class at fault, or None if no single class is.
    """

    def __init__(self, message: str, class_id: int | None = None):
        super().__init__(message)
        self.class_id = class_id


class Infeasible(ExtractionError):
    """Proved: no valid choice exists (some root has no extractable e-node)."""


class SolverUnavailable(ExtractionError):
    """The solver behind an extractor is not installed; the message says which."""


#: An e-node: its cost, and the classes that it reads.
Row = tuple[float, Sequence[int]]

#: Decimal places of costs that `in_units` tries at most.
UNIT_DIGITS = 7

#: Units in one cost at most: sums of so many units are exact in floats.
MOST_UNITS = 2.0**40

#: Relative rounding error of single precision, 2**-24.
SINGLE = 6e-8


@dataclass(frozen=True, eq=False)
class ChoiceGraph:
    """Immutable choice graph in flat arrays; make one with `build`.

    class_start: int64[n_classes + 1]; e-nodes of class c are class_start[c] .. class_start[c+1]-1
    node_class : int64[n_nodes]
    cost       : float64[n_nodes]; finite, any sign
    child_start: int64[n_nodes + 1]
    child_index: int64; the classes that n reads are child_index[child_start[n]:child_start[n+1]]
    roots      : the classes that must be extracted, distinct
    pair_costs : {(n, m): delta}, n reading the class of m
    forbidden  : e-nodes that must not be chosen
    names      : a label for each e-node, or None

    Graphs that `dataclasses.replace` makes with other costs share what follows from the classes that e-nodes read.
    """

    class_start: NDArray[np.int64]
    node_class: NDArray[np.int64]
    cost: NDArray[np.float64]
    child_start: NDArray[np.int64]
    child_index: NDArray[np.int64]
    roots: tuple[int, ...]
    pair_costs: Mapping[tuple[int, int], float] = field(default_factory=dict)
    forbidden: frozenset[int] = frozenset()
    names: tuple[str, ...] | None = None
    _read: dict[str, list[tuple[int, ...]]] = field(default_factory=dict, repr=False)

    @classmethod
    def build(
        cls,
        classes: Sequence[Iterable[Row]],
        roots: Iterable[int],
        pair_costs: Mapping[tuple[int, int], float] | None = None,
        forbidden: Collection[int] | None = None,
        names: Sequence[str] | None = None,
    ) -> ChoiceGraph:
        """Returns a graph from rows: class i gets the e-nodes `classes[i]`, each `(cost, child classes)`.

        E-nodes are numbered class by class in the order given.
        An e-node of infinite cost is a forbidden one.
        Pairs of which the first does not read the class of the second never apply and are dropped.
        Raises InvalidGraph on unknown ids, NaN or minus infinity, or no root.
        """
        rows = [list(row) for row in classes]
        flat = [node for row in rows for node in row]
        priceless = {n for n, (price, _) in enumerate(flat) if price == math.inf}
        graph = cls(
            class_start=_starts(map(len, rows)),
            node_class=np.repeat(np.arange(len(rows)), [len(row) for row in rows]),
            cost=np.asarray([0.0 if n in priceless else price for n, (price, _) in enumerate(flat)], dtype=np.float64),
            child_start=_starts(len(children) for _, children in flat),
            child_index=np.asarray([c for _, children in flat for c in children], dtype=np.int64),
            roots=tuple(dict.fromkeys(map(int, roots))),
            pair_costs={},
            forbidden=frozenset(map(int, forbidden or ())) | priceless,
            names=None if names is None else tuple(names),
        )
        graph._validate()
        deltas = (pair_costs or {}).items()
        return replace(
            graph, pair_costs={(int(n), int(m)): float(d) for (n, m), d in deltas if graph._applies(n, m, d)}
        )

    def _validate(self) -> None:
        if not self.roots:
            raise InvalidGraph("a choice graph needs at least one root class")
        if not np.isfinite(self.cost).all():
            n = int(np.flatnonzero(~np.isfinite(self.cost))[0])
            raise InvalidGraph(f"e-node {n} (class {self.node_class[n]}) has cost {self.cost[n]}")
        for what, ids, limit in (
            ("root class", self.roots, self.n_classes),
            ("child class", self.child_index.tolist(), self.n_classes),
            ("forbidden e-node", self.forbidden, self.n_nodes),
        ):
            for i in ids:
                if not 0 <= i < limit:
                    raise InvalidGraph(f"{what} {i} does not exist (there are {limit})")
        if self.names is not None and len(self.names) != self.n_nodes:
            raise InvalidGraph(f"{len(self.names)} names for {self.n_nodes} e-nodes")

    def _applies(self, n: int, m: int, delta: float) -> bool:
        """Whether e-node n reads the class of e-node m. Raises InvalidGraph if one is unknown or `delta` not finite."""
        if not (0 <= n < self.n_nodes and 0 <= m < self.n_nodes):
            raise InvalidGraph(f"pair ({n}, {m}) names an e-node that does not exist")
        if not math.isfinite(delta):
            raise InvalidGraph(f"pair ({n}, {m}) has delta {delta}, which is not finite")
        return int(self.node_class[m]) in self.children(n)

    @property
    def n_classes(self) -> int:
        return len(self.class_start) - 1

    @property
    def n_nodes(self) -> int:
        return len(self.node_class)

    def children(self, n: int) -> tuple[int, ...]:
        """Returns the classes that e-node n reads, in operand order, repeats included."""
        return self._children[n]

    @property
    def reads(self) -> list[tuple[int, ...]]:
        """The classes that each e-node reads, each once."""
        if "once" not in self._read:
            self._read["once"] = [tuple(dict.fromkeys(children)) for children in self._children]
        return self._read["once"]

    def class_nodes(self, c: int) -> range:
        """Returns the numbers of the e-nodes of class c."""
        return range(int(self.class_start[c]), int(self.class_start[c + 1]))

    @property
    def _children(self) -> list[tuple[int, ...]]:
        if "in order" not in self._read:
            flat, start = self.child_index.tolist(), self.child_start.tolist()
            self._read["in order"] = [tuple(flat[a:b]) for a, b in itertools.pairwise(start)]
        return self._read["in order"]

    @cached_property
    def integral(self) -> bool:
        """Whether every cost and delta is a whole number, so that every total is one too."""
        return bool((self.cost == np.round(self.cost)).all()) and all(d == round(d) for d in self.pair_costs.values())

    def pair_terms(self) -> dict[tuple[int, int], dict[int, float]]:
        """Returns {(e-node, class that it reads): {e-node of the class: delta}}."""
        terms: dict[tuple[int, int], dict[int, float]] = {}
        owner = self.node_class.tolist()
        for (n, m), delta in self.pair_costs.items():
            terms.setdefault((n, owner[m]), {})[m] = delta
        return terms

    def in_units(self) -> tuple[ChoiceGraph, float]:
        """Returns the graph with whole-number costs, and the unit that they count.

        Returns (self, 1.0) if there is no such unit.
        The unit is the largest multiple of a power of ten that divides all costs and deltas.
        Measured costs are often decimals stored in single precision; they count as these decimals.
        Totals are whole numbers there, so solvers can prove an optimum where float costs leave a doubt.
        """
        prices = np.concatenate([self.cost, np.fromiter(self.pair_costs.values(), float, len(self.pair_costs))])
        for digits in range(UNIT_DIGITS + 1):
            scaled = prices * 10.0**digits
            whole = np.round(scaled)
            if np.abs(whole).max(initial=0.0) > MOST_UNITS:
                break
            noise = SINGLE * np.abs(scaled)
            if (np.abs(scaled - whole) <= np.where(noise <= 0.5, np.clip(noise, 1e-6, 0.25), 1e-6)).all():
                common = int(np.gcd.reduce(np.abs(whole).astype(np.int64), initial=0)) or 1
                cost = whole[: self.n_nodes] / common
                pairs = dict(zip(self.pair_costs, (whole[self.n_nodes :] / common).tolist(), strict=True))
                return replace(self, cost=cost, pair_costs=pairs), common / 10.0**digits
        return self, 1.0

    def total(self, value: float) -> float | int:
        """Returns `value` as a cost of this graph: an int if all costs are whole numbers."""
        return round(value) if self.integral and math.isfinite(value) else value

    def name(self, n: int) -> str:
        """Returns the label of e-node n, or its number."""
        return self.names[n] if self.names is not None else f"#{n}"


def _starts(lengths: Iterable[int]) -> NDArray[np.int64]:
    """Returns where each of several runs of these lengths begins, and where the last one ends."""
    return np.cumsum([0, *lengths], dtype=np.int64)


class Prices:
    """Node and edge prices of `graph`, as plain lists and dicts for tight Python loops.

    The cost of a choice is the sum of `node[n]` and `edges(n, choice)` over its e-nodes n.

    node   : [e-node]: its price
    reads  : [e-node]: the classes that it reads, each once
    readers: [class]: the allowed e-nodes that read it, each once
    paired : {e-node: {class that it reads: {e-node of that class: price of the read}}}; other reads are free
    """

    def __init__(self, graph: ChoiceGraph):
        self.graph = graph
        self.node: list[float] = graph.cost.tolist()
        self.reads = graph.reads
        self.readers: list[list[int]] = [[] for _ in range(graph.n_classes)]
        for n, reads in enumerate(self.reads):
            if n not in graph.forbidden:
                for d in reads:
                    self.readers[d].append(n)
        pairs = graph.pair_terms()
        self.paired = {n: {d: pairs[n, d] for d in self.reads[n] if (n, d) in pairs} for n, _ in pairs}

    def edges(self, n: int, choice: dict[int, int] | list[int]) -> float:
        """Returns the price of all reads of n under `choice`."""
        price = 0.0
        for d, prices in self.paired.get(n, {}).items():
            price += prices.get(choice[d], 0.0)
        return price
