"""Which ops of a concrete graph Vela makes part of another's operator: RESCALEs, activations, transposes that are written at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from cost_models.fusion import ACTIVATIONS, SUMS, fuses, is_noop
from cost_models.protocol import Unit
from cost_models.unit_graph import UnitGraph
from eqsat.target import Family


@dataclass(slots=True)
class FusedOps:
    """absorbed: ops that cost nothing, as they are part of another. activation: "clamp" or "table" that an op carries. permutation: the one
    that a convolution is written in."""

    absorbed: set[int] = field(default_factory=set)
    activation: dict[int, str] = field(default_factory=dict)
    permutation: dict[int, tuple[int, ...]] = field(default_factory=dict)


def fused_ops(g: UnitGraph, family: Family) -> FusedOps:
    """What fuses in `g` on a family's accelerators."""
    out = FusedOps()
    for n, u in g.units.items():
        out.absorbed.update(_operand_scales(g, n, family))
        if u.op == "transpose" and family.transposes.fused and (writer := _convolution_before(g, n)) is not None:
            out.absorbed.add(n)
            out.permutation[writer] = u.attr("perms")
        if (carrier := _carrier(g, n, family)) is not None:
            out.absorbed.add(n)
            if u.op in ACTIVATIONS:
                out.activation[carrier] = u.op
    return out


def _operand_scales(g: UnitGraph, n: int, family: Family) -> Iterator[int]:
    """The RESCALEs to INT32 that fuse into the sum that reads them."""
    u = g.units[n]
    sources = [g.through_views(i) for i in g.inputs(n) if i in g.units]
    scales = [i for i in sources if g.is_unit(i, "rescale")]
    if u.op == "reduce_sum":
        scales = [i for i in scales if len(g.readers[i]) == 1]
    elif (
        u.op not in SUMS
        or u.op in ("add", "sub")
        and not family.scaled_sums
        and not _summable([g.units[i] for i in scales])
    ):
        scales = []
    yield from (i for i in scales if g.units[i].result.dtype == "INT32")


def _summable(scales: Sequence[Unit]) -> bool:
    """Sums that do not take operands of any scale take them if both are one, or if they differ and the larger is 2^19 or 2^14 (measured on
    Vela 5.1)."""
    values = [s.attr("multiplier")[0] / 2.0 ** s.attr("shift")[0] for s in scales]
    return bool(values) and (all(v == 1 for v in values) or len(set(values)) > 1 and max(values) in (2.0**19, 2.0**14))


def _convolution_before(g: UnitGraph, n: int) -> int | None:
    """The convolution whose result, rescaled or looked up, only `n` reads."""
    i = next((i for i in g.inputs(n) if i in g.units), -1)
    while g.is_unit(i, "rescale", "table") and len(g.readers[i]) == 1:
        i = g.inputs(i)[0]
    return i if g.is_unit(i, "conv2d", "depthwise_conv2d") and len(g.readers[i]) == 1 else None


def _carrier(g: UnitGraph, n: int, family: Family) -> int | None:
    """The op that `n` becomes part of, where it is the only one that reads it: the arithmetic itself, whose RESCALE may lie between."""
    u, source = g.units[n], next((i for i in g.inputs(n) if i in g.units), None)
    if source is None or is_noop(u):
        return None
    source = g.through_views(source)
    if source not in g.units or len(g.readers[source]) > 1:
        return None
    before = g.through_views(next(iter(g.inputs(source)), source))
    term = fuses(u, g.units[source], [g.units[before]] if before in g.units else [], family)
    if term is None or term.of_reader < 1:
        return None
    return before if g.is_unit(source, "rescale") else source
