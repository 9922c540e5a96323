"""Graphs that must never reach Vela: with sums of 48 bits where it takes none, or with a defect (`defects.py`) that it
would not get right."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from eqsat.target import Family
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import OPS
from eqsat.vela.defects import Guard, remedies
from eqsat.vela.patterns import Operator


def guarded(cycles: float, operator: Operator, guards: Iterable[Guard]) -> float:
    """The price of an operator under guards: more than `cycles` where it may have a defect, inf where it is
    forbidden."""
    factors = [g.factor for g in guards if g.operator is not None and not g.reads and g.operator(operator)]
    return math.inf if misplaced(operator) or math.inf in factors else cycles * math.prod(factors)


def forbidden_operand(operator: Operator, guards: Iterable[Guard]) -> set[str]:
    """The operators whose results an operator must not read as its first operand."""
    return {g.reads for g in guards if g.reads and g.operator is not None and g.operator(operator)}


def misplaced(operator: Operator) -> bool:
    """Whether an operator is wrong wherever it is: INT48 sums may be read by a RESCALE alone."""
    return (
        operator.op != "rescale"
        and OPS[operator.op].kind not in ("leaf", "mac")
        and any(DType.of(t.dtype).only_rescaled for t in (*operator.operands, operator.result))
    )


def violations(graph: TensorGraph, family: Family) -> list[str]:
    """What in a graph for a family breaks a guard, in words, one for each place."""
    defects = [g.words for g in remedies(Guard, family) for _ in g.places(graph)]
    return defects + ["an INT48 result read by anything but its one RESCALE" for _ in _misread(graph)]


def broken(graph: TensorGraph, source: TensorGraph, family: Family) -> list[str]:
    """The guards that a graph breaks more often than the one that it replaces."""
    return list((Counter(violations(graph, family)) - Counter(violations(source, family))).elements())


def _misread(graph: TensorGraph) -> Iterator[int]:
    for n, reading in graph.readers().items():
        node = graph.nodes[n]
        read_by = [graph.nodes[r].op for r in reading]
        if DType.of(node.dtype).only_rescaled and node.op != "const" and read_by not in ([], ["rescale"]):
            yield n
