"""The ops of a concrete graph that Vela makes part of another op's operator.

These are RESCALEs, activations, and transposes in whose order the op before writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cost_models.fusion import ACTIVATIONS, SUMS, fuses, is_noop
from cost_models.unit_graph import UnitGraph
from eqsat.target import Family
from eqsat.tensor.dtypes import DType


@dataclass(slots=True)
class FusedOps:
    """The fusions in a graph.

    absorbed   : ops that cost nothing, as they are part of another
    activation : {op: "clamp" or "table" that it carries}
    permutation: {convolution: the permutation in which it writes}
    """

    absorbed: set[int] = field(default_factory=set)
    activation: dict[int, str] = field(default_factory=dict)
    permutation: dict[int, tuple[int, ...]] = field(default_factory=dict)


def fused_ops(graph: UnitGraph, family: Family) -> FusedOps:
    """Returns what fuses in `graph` on a family's accelerators."""
    out = FusedOps()
    for n, unit in graph.units.items():
        out.absorbed.update(_operand_scales(graph, n, family))
        if unit.op == "transpose" and family.transposes.fused and (writer := _convolution_before(graph, n)) is not None:
            out.absorbed.add(n)
            out.permutation[writer] = unit.attr("perms")
        if (carrier := _carrier(graph, n, family)) is not None:
            out.absorbed.add(n)
            if unit.op in ACTIVATIONS:
                out.activation[carrier] = unit.op
    return out


def _operand_scales(graph: UnitGraph, n: int, family: Family) -> Iterator[int]:
    """Yields the RESCALEs to INT32 that fuse into op `n`, a sum that reads them."""
    unit = graph.units[n]
    sources = [graph.through_views(i) for i in graph.inputs(n) if i in graph.units]
    scales = [i for i in sources if graph.is_unit(i, "rescale")]
    if unit.op == "reduce_sum":
        scales = [i for i in scales if len(graph.readers[i]) == 1]
    elif unit.op not in SUMS or unit.op in ("add", "sub") and not (family.scaled_sums or _summable(graph, scales)):
        scales = []
    yield from (i for i in scales if DType.of(graph.units[i].result.dtype).is_wide)


def _summable(graph: UnitGraph, scales: Sequence[int]) -> bool:
    """Whether a sum takes these scales: all 1, or several and the largest 2^19 or 2^14 (measured on Vela 5.1)."""
    values = [s.attr("multiplier")[0] / 2.0 ** s.attr("shift")[0] for s in (graph.units[i] for i in scales)]
    return bool(values) and (all(v == 1 for v in values) or len(set(values)) > 1 and max(values) in (2.0**19, 2.0**14))


def _convolution_before(graph: UnitGraph, n: int) -> int | None:
    """Returns the convolution whose result, rescaled or looked up, only `n` reads, or None."""
    i = next((i for i in graph.inputs(n) if i in graph.units), -1)
    while graph.is_unit(i, "rescale", "table") and len(graph.readers[i]) == 1:
        i = graph.inputs(i)[0]
    return i if graph.is_unit(i, "conv2d", "depthwise_conv2d") and len(graph.readers[i]) == 1 else None


def _carrier(graph: UnitGraph, n: int, family: Family) -> int | None:
    """Returns the op that `n`, its only reader, becomes part of, also over a RESCALE between; None if there is none."""
    unit, source = graph.units[n], next((i for i in graph.inputs(n) if i in graph.units), None)
    if source is None or is_noop(unit):
        return None
    source = graph.through_views(source)
    if source not in graph.units or len(graph.readers[source]) > 1:
        return None
    before = graph.through_views(next(iter(graph.inputs(source)), source))
    term = fuses(unit, graph.units[source], [graph.units[before]] if before in graph.units else [], family)
    if term is None or term.of_reader < 1:
        return None
    return before if graph.is_unit(source, "rescale") else source
