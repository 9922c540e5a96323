"""Figures of a compiled graph, or of a program's delegates together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from msgspec import convert

from cost_models.command_stream import Ratio, StreamPrice, price, price_ends
from eqsat.device.core.errors import DeviceError
from eqsat.target import Target
from eqsat.vela.compile import Estimate, Footprint


@dataclass(frozen=True, slots=True)
class GraphFigures:
    """Figures of one side of a comparison; unknown ones are None or empty.

    calibrated: cycles by the calibrated price of the command stream, which decide.
    ends: the same with each constant of the calibration at the two ends of its range.
    cycles: Vela's total.
    by_kind: cycles by operator kind.
    footprint: bytes of memory.
    stream: the price of the command stream.
    pte_bytes: bytes of the .pte.
    milliseconds: the calibrated cycles at the clock of the system configuration.
    """

    cycles: int | None = None
    by_kind: dict[str, int] = field(default_factory=dict)
    footprint: Footprint | None = None
    stream: StreamPrice | None = None
    pte_bytes: int | None = None
    milliseconds: float | None = None
    calibrated: int | None = None
    ends: tuple[tuple[int, int], ...] = ()

    @property
    def sram(self) -> int | None:
        """Peak bytes of SRAM."""
        return self.footprint.sram if self.footprint else None

    @property
    def flash(self) -> int | None:
        """Bytes of commands and weights in a .pte."""
        return self.footprint.payload if self.footprint else None

    @staticmethod
    def of(estimate: Estimate, target: Target) -> GraphFigures:
        """Returns the figures of a graph that was compiled for the target; of unknown commands Vela's total counts."""
        stream = _stream_price(estimate, target)
        cycles = stream.cycles if stream else estimate.cycles
        return GraphFigures(
            estimate.cycles,
            estimate.by_kind,
            estimate.footprint,
            stream,
            milliseconds=1e3 * cycles / estimate.rates.clock,
            calibrated=cycles,
            ends=_add_ends(price_ends(s, target) for s in estimate.streams) if stream else (),
        )

    def over(self, before: GraphFigures) -> Ratio | None:
        """Returns the ratio of the calibrated cycles to those of another graph, None if one of them is unknown."""
        if self.calibrated is None or before.calibrated is None:
            return None
        return Ratio.of(self.calibrated, before.calibrated, self.ends, before.ends)

    @staticmethod
    def together(delegates: Sequence[GraphFigures], complete: bool) -> GraphFigures:
        """Returns the sums of the delegates' figures, None for one that a delegate lacks.

        If the delegates are not `complete`, only the cycles by operator kind are known.
        """
        by_kind: dict[str, int] = {}
        for kind, cycles in (pair for d in delegates for pair in d.by_kind.items()):
            by_kind[kind] = by_kind.get(kind, 0) + cycles
        if not complete:
            return GraphFigures(by_kind=by_kind)
        footprints = [d.footprint for d in delegates if d.footprint]
        return GraphFigures(
            _sum(d.cycles for d in delegates),
            by_kind,
            Footprint.together(footprints) if len(footprints) == len(delegates) else None,
            _together([d.stream for d in delegates]),
            milliseconds=_sum(d.milliseconds for d in delegates),
            calibrated=_sum(d.calibrated for d in delegates),
            ends=_add_ends(d.ends for d in delegates),
        )


class Compared(NamedTuple):
    """Figures of both sides over the delegates whose cycles are known on both, and the names of the others."""

    stock: GraphFigures
    eqsat: GraphFigures
    left_out: list[str]

    @staticmethod
    def of(delegates: Mapping[str, Mapping[str, GraphFigures]]) -> Compared:
        """Compares delegates by name; one without a result has no sides."""
        both = ("stock", "eqsat")
        known = {n: sides for n, sides in delegates.items() if sides and all(sides[s].calibrated for s in both)}
        stock, ours = (GraphFigures.together([sides[s] for sides in known.values()], bool(known)) for s in both)
        return Compared(stock, ours, [name for name in delegates if name not in known])


#: Fields of the figures of one side that JSON holds.
_RECORDED = ("cycles", "by_kind", "footprint", "milliseconds", "calibrated")
#: Prefixes of their keys, by side.
_STARTS = {"eqsat": "", "stock": "stock_", "explicit": "explicit_"}


def record(sides: Mapping[str, GraphFigures]) -> dict[str, Any]:
    """Returns the figures of all sides as a JSON object."""
    told = {side: asdict(figures) for side, figures in sides.items()}
    out = {start + name: told[side][name] for side, start in _STARTS.items() for name in _RECORDED}
    out |= {start + "corrected": told[side]["cycles"] for side, start in _STARTS.items()}
    return {**out, "command_stream": {side: figures["stream"] for side, figures in told.items()}}


def read(told: Mapping[str, Any]) -> dict[str, GraphFigures]:
    """Returns the sides of a record."""
    return {
        side: convert(
            {**{name: told[start + name] for name in _RECORDED}, "stream": told["command_stream"][side]}, GraphFigures
        )
        for side, start in _STARTS.items()
    }


def count_cycles(estimate: Estimate, target: Target) -> int:
    """Returns the calibrated cycles of a compiled graph, Vela's total without a price of its commands."""
    stream = _stream_price(estimate, target)
    return stream.cycles if stream else estimate.cycles


def _stream_price(estimate: Estimate, target: Target) -> StreamPrice | None:
    """Returns the price of a compiled graph's command streams, None if a command has none."""
    try:
        return _together([price(s, target) for s in estimate.streams])
    except DeviceError:
        return None


def _add_ends(ends: Iterable[Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    """Returns the sums of several graphs' ends, constant by constant; none if those of a graph are unknown."""
    return tuple((sum(a), sum(b)) for a, b in (zip(*one) for one in zip(*ends)))


def _together(prices: Sequence[StreamPrice | None]) -> StreamPrice | None:
    """Returns the price of all delegates together, or None if one of them is unknown."""
    known = [p for p in prices if p is not None]
    return StreamPrice.together(known) if known and len(known) == len(prices) else None


_Number = TypeVar("_Number", int, float)


def _sum(totals: Iterable[_Number | None]) -> _Number | None:
    every = list(totals)
    known = [t for t in every if t is not None]
    return sum(known) if len(known) == len(every) else None
