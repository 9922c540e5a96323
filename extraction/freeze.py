"""Reading egglog's frozen e-graph: `from_frozen(egraph.freeze(), roots=["$x"])`.

Takes what `egglog.bindings.EGraph.freeze()` returns, without importing egglog: `.functions` by name,
each with input_sorts, output_sort, is_let_binding and rows of inputs, output and subsumed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .errors import InvalidGraph
from .graph import ChoiceGraph

PRIMITIVE_SORTS = frozenset({"i64", "f64", "bool", "String", "Unit", "BigInt", "BigRat", "Rational"})
"""Values of these are data, not e-classes; they cost nothing."""


def from_frozen(
    frozen: Any,
    roots: Sequence[str],
    cost: Callable[[str], float] = lambda function: 1.0,
    primitive_sorts: frozenset[str] = PRIMITIVE_SORTS,
) -> tuple[ChoiceGraph, list[tuple[str, Any]]]:
    """The graph, and for every e-node its (function, row).

    `roots` names let bindings; `cost` prices a function's e-nodes (`set_cost` values are not part of
    a frozen e-graph); subsumed rows are forbidden. Containers count as e-classes unless named in
    `primitive_sorts`, and then as data. Raises InvalidGraph on an unknown root.
    """
    number: dict[tuple[str, Any], int] = {}
    rows: list[list[tuple[float, list[int]]]] = []
    origin: list[list[tuple[str, Any]]] = []
    subsumed: set[tuple[int, int]] = set()

    def class_of(sort: str, value: Any) -> int:
        if (sort, value) not in number:
            number[sort, value] = len(rows)
            rows.append([])
            origin.append([])
        return number[sort, value]

    bound: dict[str, int] = {}
    for name, function in frozen.functions.items():
        if function.output_sort in primitive_sorts:
            continue
        for row in function.rows:
            c = class_of(function.output_sort, row.output)
            if function.is_let_binding:
                bound[name] = c
                continue
            children = [
                class_of(sort, value)
                for sort, value in zip(function.input_sorts, row.inputs)
                if sort not in primitive_sorts
            ]
            if row.subsumed:
                subsumed.add((c, len(rows[c])))
            rows[c].append((cost(name), children))
            origin[c].append((name, row))
    for r in roots:
        if r not in bound:
            raise InvalidGraph(f"no let binding {r!r}; there are {', '.join(sorted(bound)) or 'none'}")
    flat = [(c, i) for c, group in enumerate(rows) for i in range(len(group))]
    graph = ChoiceGraph.build(
        rows,
        [bound[r] for r in roots],
        names=[origin[c][i][0] for c, i in flat],
        forbidden=[n for n, place in enumerate(flat) if place in subsumed],
    )
    return graph, [origin[c][i] for c, i in flat]
