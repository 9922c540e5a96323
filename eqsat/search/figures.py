"""Figures of a compiled graph, or of a program's delegates together, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple, TypeVar

from msgspec import convert

from cost_models.command_stream import Ratio, StreamPrice, price, price_with_ends
from eqsat.device.core.errors import DeviceError
from eqsat.ground.table import Table, number, ratio, share
from eqsat.target import Target
from eqsat.vela.compile import Estimate, Footprint
from eqsat.vela.roofline import Bound


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
        priced: tuple[StreamPrice | None, tuple[tuple[int, int], ...]] = None, ()
        with suppress(DeviceError):
            priced = price_with_ends(estimate.stream, target)
        stream, ends = priced
        cycles = stream.cycles if stream else estimate.cycles
        return GraphFigures(
            estimate.cycles,
            estimate.by_kind,
            estimate.footprint,
            stream,
            milliseconds=1e3 * cycles / estimate.rates.clock,
            calibrated=cycles,
            ends=ends,
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
    try:
        return price(estimate.stream, target).cycles
    except DeviceError:
        return estimate.cycles


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


# The comparison of graphs by their figures, such as those before and after an optimization.

#: A row of a table: a quantity, its value of each graph, and how known values are written.
_Row = tuple[str, Sequence[float | None], Callable[[float], str]]


def verdict(old: GraphFigures, new: GraphFigures) -> str:
    """Returns the ratio of calibrated cycles with its interval, and the change of memory, as far as known."""
    over = new.over(old)
    if over is None or not (old.calibrated and new.calibrated):
        return f"nothing to compare: the cycles {'with' if old.calibrated else 'without'} eqsat are not known"
    known = "" if old.calibrated == new.calibrated else f" ({over})"
    said = [_cycles_change(old.calibrated, new.calibrated) + known]
    file = (".pte", old.pte_bytes, new.pte_bytes)
    pairs = [("SRAM", old.sram, new.sram), ("flash", old.flash, new.flash) if new.pte_bytes is None else file]
    said += [f"{what} {_change(before, after)}" for what, before, after in pairs if before and after is not None]
    return ", ".join(said)


def _cycles_change(before: int, after: int) -> str:
    if before == after:
        return "no fewer cycles"
    return f"{before / after:.2f}x fewer cycles" if after < before else f"{after / before:.2f}x more cycles"


def _change(before: int, after: int) -> str:
    return "as before" if before == after else f"{after / before - 1:+.1%}"


def summary(graphs: Mapping[str, GraphFigures]) -> Table:
    """Returns the table of cycles, time and bytes, which decide whether a model fits, with a column per graph."""
    return _table("cycles", graphs, [*_cycles(graphs), *_bytes(graphs)])


def tables(graphs: Mapping[str, GraphFigures], bound: Bound | None = None, ratios: bool = True) -> list[Table]:
    """Returns all figures in tables with a column per graph; those that no graph has are left out.

    There are cycles by operator kind, totals with their bounds, and bytes in memory and moved.
    bound: the fewest cycles that the graphs need.
    ratios: whether the last column is the ratio of the last graph to the first one.
    """
    of = list(graphs.values())
    largest = {kind: max(f.by_kind.get(kind, 0) for f in of) for kind in sorted({k for f in of for k in f.by_kind})}
    kinds = sorted((kind for kind in largest if largest[kind]), key=lambda kind: -largest[kind])
    by_kind: list[_Row] = [
        (kind, [f.by_kind.get(kind, 0) if f.by_kind else None for f in of], number) for kind in kinds
    ]
    found = [
        _table("Vela's cycles by operator kind", graphs, by_kind, ratios),
        _table("cycles", graphs, _totals(graphs, bound), ratios),
        _table("bytes", graphs, _memory(graphs), ratios),
    ]
    return [table for table in found if table.rows]


def _table(title: str, graphs: Mapping[str, GraphFigures], rows: Iterable[_Row], ratios: bool = True) -> Table:
    ratios = ratios and len(graphs) > 1
    cells = []
    for what, values, shown in rows:
        if any(x is not None for x in values):
            old, new = values[0], values[-1]
            change = ratio(new / old) if shown is number and old and new is not None else ""
            known = ("-" if x is None else shown(x) for x in values)
            cells.append((what, *known, *([change] if ratios else [])))
    return Table(title[0].upper() + title[1:], "", (title, *graphs, *(["ratio"] if ratios else [])), tuple(cells))


def _cycles(graphs: Mapping[str, GraphFigures]) -> list[_Row]:
    of = list(graphs.values())
    times = [f.milliseconds or None for f in of]
    return [
        ("calibrated cycles", [f.calibrated for f in of], number),
        ("Vela's total", [f.cycles for f in of], number),
        ("milliseconds", times, _three_digits),
        ("inferences per second", [t and 1e3 / t for t in times], _three_digits),
    ]


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _totals(graphs: Mapping[str, GraphFigures], bound: Bound | None) -> list[_Row]:
    of, rows = list(graphs.values()), _cycles(graphs)
    if bound and bound.roofline:
        for name, least in (("roofline", bound.roofline), ("bound by operators", bound.operators)):
            over = [f.cycles / least if f.cycles else None for f in of]
            rows.append((f"Vela's total over the {name}", over, "{:.2f}".format))
        rows.append(("MAC utilisation", [bound.mac_cycles / f.cycles if f.cycles else None for f in of], share))
    return [*rows, ("commands", [f.stream.commands if f.stream else None for f in of], number)]


def _bytes(graphs: Mapping[str, GraphFigures]) -> list[_Row]:
    of = list(graphs.values())
    return [
        ("SRAM in use, bytes", [f.sram for f in of], number),
        ("flash: weights", [f.footprint.weights if f.footprint else None for f in of], number),
        ("flash: commands", [f.footprint.commands if f.footprint else None for f in of], number),
        (".pte file", [f.pte_bytes for f in of], number),
    ]


def _memory(graphs: Mapping[str, GraphFigures]) -> list[_Row]:
    footprints = [f.footprint for f in graphs.values()]
    rows = _bytes(graphs)
    for name in dict.fromkeys(m for f in footprints if f for m in f.memory):
        for what in ("peak", "read", "written"):
            moved = [f.memory.get(name, {}).get(what, 0) if f else None for f in footprints]
            if any(moved) and (name, what) != ("Sram", "peak"):  # that is the SRAM in use
                rows.append((f"{name}: {what}", moved, number))
    return rows


def equality(told: Mapping[str, Any]) -> list[str]:
    """Returns the lines on whether a result equals its source, in its graph and in its binary.

    told: the fields of a `Result`, or their record; without those of a binary there is no line on it.
    """
    lines = [f"verified bit for bit: {'yes' if told['verified'] else 'no'}"]
    if told["verified"]:
        where = f", undecided at {'; '.join(told['undecided'])}" if told["undecided"] else ""
        lines.append(f"proved for every input: {'yes' if told['proved'] else f'no, compared on samples{where}'}")
    if "binary_verified" in told:
        lines.append(f"verified in the binary: {_binary(told)}")
    return lines


def _binary(told: Mapping[str, Any]) -> str:
    if told["binary_proved"]:
        return "yes, proved for every input"
    if told["binary_verified"]:
        known = told.get("binary_samples")  # saved runs that are older have none
        return f"yes, on {f'{known} ' if known else ''}samples"
    return f"{'not run' if told['binary_verified'] is None else 'no'}: {told['binary_reason']}"
