"""Graphs that must never reach Vela: with a defect (`defects.py`), or with sums of 48 bits where it takes none."""

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


def price_guards(cycles: float, operator: Operator, guards: Iterable[Guard]) -> float:
    """Returns the price of an operator under guards, in cycles.

    It is more than `cycles` if the operator may have a defect, inf if it is forbidden.
    """
    factors = [g.factor for g in guards if g.operator is not None and g.operator(operator)]
    return math.inf if is_misplaced(operator) or math.inf in factors else cycles * math.prod(factors)


def is_misplaced(operator: Operator) -> bool:
    """Whether an operator is wrong in every graph: only a RESCALE may read INT48 sums."""
    return (
        operator.op != "rescale"
        and OPS[operator.op].kind not in ("leaf", "mac")
        and any(DType.of(t.dtype).only_rescaled for t in (*operator.operands, operator.result))
    )


def violations(graph: TensorGraph, family: Family, vela: str | None = None) -> list[str]:
    """Returns the violations of guards in a graph for a family, in words, one for each place.

    vela: the version; None is the installed one.
    """
    defects = [g.words for g in remedies(Guard, family, vela) for _ in g.places(graph)]
    return defects + ["an INT48 result read by anything but its one RESCALE" for _ in _find_misread(graph)]


def find_broken(graph: TensorGraph, source: TensorGraph, family: Family) -> list[str]:
    """Returns the guards, in words, that a graph violates more often than the one that it replaces."""
    return list((Counter(violations(graph, family)) - Counter(violations(source, family))).elements())


def _find_misread(graph: TensorGraph) -> Iterator[int]:
    for n, reading in graph.readers().items():
        node = graph.nodes[n]
        read_by = [graph.nodes[r].op for r in reading]
        if DType.of(node.dtype).only_rescaled and node.op != "const" and read_by not in ([], ["rescale"]):
            yield n
