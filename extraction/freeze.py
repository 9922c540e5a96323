"""Reading egglog's frozen e-graph: `from_frozen(egraph.freeze(), roots=["$x"])`.

The input is what `egglog.bindings.EGraph.freeze()` returns; egglog is not imported.
Its `.functions` maps a name to a function with input_sorts, output_sort, is_let_binding and rows.
A row has inputs, output and subsumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import InvalidGraph
from .graph import ChoiceGraph

#: Sorts whose values are data and not e-classes; they cost nothing.
PRIMITIVE_SORTS = frozenset({"i64", "f64", "bool", "String", "Unit", "BigInt", "BigRat", "Rational"})


def from_frozen(
    frozen: Any,
    roots: Sequence[str],
    cost: Callable[[str], float] = lambda function: 1.0,
    primitive_sorts: frozenset[str] = PRIMITIVE_SORTS,
) -> tuple[ChoiceGraph, list[tuple[str, Any]]]:
    """Returns the graph, and for every e-node its (function, row).

    roots: names of let bindings.
    cost: prices the e-nodes of a function; `set_cost` values are not part of a frozen e-graph.
    primitive_sorts: sorts whose values are data; containers count as e-classes unless named here.
    Subsumed rows are forbidden.
    Raises InvalidGraph on an unknown root.
    """
    table = _Table(cost, primitive_sorts)
    bound: dict[str, int] = {}
    for name, function in frozen.functions.items():
        if function.output_sort in primitive_sorts:
            continue
        for row in function.rows:
            c = table.class_of(function.output_sort, row.output)
            if function.is_let_binding:
                bound[name] = c
            else:
                table.add(c, name, function.input_sorts, row)
    unknown = [r for r in roots if r not in bound]
    if unknown:
        raise InvalidGraph(f"no let binding {unknown[0]!r}; there are {', '.join(sorted(bound)) or 'none'}")
    origin = [node for nodes in table.origin for node in nodes]
    graph = ChoiceGraph.build(
        table.rows,
        [bound[r] for r in roots],
        names=[function for function, _ in origin],
        forbidden=[n for n, (_, row) in enumerate(origin) if row.subsumed],
    )
    return graph, origin


class _Table:
    """Classes numbered by sort and value as they occur, with their e-nodes and (function, row)."""

    def __init__(self, cost: Callable[[str], float], primitive_sorts: frozenset[str]):
        self.cost, self.primitive_sorts = cost, primitive_sorts
        self.number: dict[tuple[str, Any], int] = {}
        self.rows: list[list[tuple[float, list[int]]]] = []
        self.origin: list[list[tuple[str, Any]]] = []

    def class_of(self, sort: str, value: Any) -> int:
        if (sort, value) not in self.number:
            self.number[sort, value] = len(self.rows)
            self.rows.append([])
            self.origin.append([])
        return self.number[sort, value]

    def add(self, c: int, function: str, sorts: Sequence[str], row: Any) -> None:
        """Adds an e-node to class c."""
        operands = zip(sorts, row.inputs)
        children = [self.class_of(sort, value) for sort, value in operands if sort not in self.primitive_sorts]
        self.rows[c].append((self.cost(function), children))
        self.origin[c].append((function, row))
