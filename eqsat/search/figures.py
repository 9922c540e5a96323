"""Figures of a compiled graph, or of a program's delegates together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from eqsat.options.referee import StreamPrice, total
from eqsat.vela.compile import Estimate, Footprint


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """Figures of one side of a comparison, None or empty where they are not known.

    cycles: Vela's total; corrected: without what Vela is known to charge for nothing; by_kind: cycles by operator kind.
    milliseconds: of the corrected total at the clock of the system configuration.
    footprint: bytes of memory; stream: the price of its command stream; pte_bytes: of its .pte.
    """

    cycles: int | None = None
    corrected: int | None = None
    by_kind: dict[str, int] = field(default_factory=dict)
    footprint: Footprint | None = None
    stream: StreamPrice | None = None
    pte_bytes: int | None = None
    milliseconds: float | None = None

    @property
    def sram(self) -> int | None:
        """Bytes of SRAM in use at once."""
        return self.footprint.sram if self.footprint else None

    @property
    def flash(self) -> int | None:
        """Bytes of commands and weights in a .pte."""
        return self.footprint.payload if self.footprint else None

    @staticmethod
    def of(estimate: Estimate, stream: StreamPrice | None) -> GraphFigures:
        milliseconds = 1e3 * estimate.corrected / estimate.rates.clock
        return GraphFigures(
            estimate.cycles,
            estimate.corrected,
            estimate.by_kind,
            estimate.footprint,
            stream,
            milliseconds=milliseconds,
        )

    @staticmethod
    def together(delegates: Sequence[GraphFigures], complete: bool) -> GraphFigures:
        """The figures of all delegates; those that one of them has not are None, and nearly all where these are not
        `complete`."""
        by_kind: dict[str, int] = {}
        for kind, cycles in (pair for d in delegates for pair in d.by_kind.items()):
            by_kind[kind] = by_kind.get(kind, 0) + cycles
        if not complete:
            return GraphFigures(by_kind=by_kind)
        footprints = [d.footprint for d in delegates if d.footprint]
        return GraphFigures(
            _sum(d.cycles for d in delegates),
            _sum(d.corrected for d in delegates),
            by_kind,
            Footprint.together(footprints) if len(footprints) == len(delegates) else None,
            total(d.stream for d in delegates),
            milliseconds=_sum(d.milliseconds for d in delegates),
        )


#: Figures of the sides of a result in JSON, and how the keys of each side begin.
_RECORDED = ("cycles", "corrected", "by_kind", "footprint", "milliseconds")
_STARTS = {"eqsat": "", "stock": "stock_", "explicit": "explicit_"}


def record(sides: Mapping[str, GraphFigures]) -> dict[str, Any]:
    """The figures of sides, as JSON holds them."""
    told = {side: asdict(figures) for side, figures in sides.items()}
    out = {start + name: told[side][name] for side, start in _STARTS.items() for name in _RECORDED}
    return {**out, "command_stream": {side: figures["stream"] for side, figures in told.items()}}


def read(told: Mapping[str, Any]) -> dict[str, GraphFigures]:
    """The sides of a record, without the prices of their streams. Those of a record from before there were corrected
    cycles have Vela's own."""
    sides = {}
    for side, start in _STARTS.items():
        known = {name: told[start + name] for name in _RECORDED if start + name in told}
        footprint = known.pop("footprint")
        sides[side] = GraphFigures(
            **{"corrected": known["cycles"], **known}, footprint=footprint and Footprint(**footprint)
        )
    return sides


_Number = TypeVar("_Number", int, float)


def _sum(totals: Iterable[_Number | None]) -> _Number | None:
    every = list(totals)
    known = [t for t in every if t is not None]
    return sum(known) if len(known) == len(every) else None
