"""The comparison of graphs by their figures, such as those before and after an optimization.

Its tables are shown in the terminal, in Python, in notebooks and on pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from eqsat.ground.table import Table, number, ratio, share
from eqsat.search.figures import GraphFigures
from eqsat.vela.roofline import Bound

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
