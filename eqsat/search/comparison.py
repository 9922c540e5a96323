"""The comparison of the figures before and after an optimization.

Its rows make up every table: in the terminal, in Python and in notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

from eqsat.search.figures import GraphFigures
from eqsat.vela.roofline import Bound


class Row(NamedTuple):
    """One row of a table as text: the quantity, before, after, and after divided by before."""

    what: str
    old: str
    new: str
    ratio: str


def verdict(old: GraphFigures, new: GraphFigures) -> str:
    """Returns the ratio of calibrated cycles with its interval, and the change of memory, in one line.

    It says so if the cycles of one side are not known.
    """
    ratio = new.over(old)
    if ratio is None or not (old.calibrated and new.calibrated):
        return f"nothing to compare: the cycles {'with' if old.calibrated else 'without'} eqsat are not known"
    known = "" if old.calibrated == new.calibrated else f" ({ratio})"
    said = [_cycles_change(old.calibrated, new.calibrated) + known]
    file = (".pte", old.pte_bytes, new.pte_bytes)
    pairs = [("SRAM", old.sram, new.sram), ("flash", old.flash, new.flash) if new.pte_bytes is None else file]
    said += [f"{what} {_change(before, after)}" for what, before, after in pairs if before and after is not None]
    return ", ".join(said)


def _cycles_change(before: int, after: int) -> str:
    if before == after:
        return "no fewer cycles"
    return f"{before / after:.2f}x fewer cycles" if after < before else f"{after / before:.2f}x more cycles"


def _totals_differ(*sides: GraphFigures) -> bool:
    """Whether the corrected total of a side is another than Vela's."""
    return any(side.corrected != side.cycles for side in sides)


def _change(before: int, after: int) -> str:
    return "as before" if before == after else f"{after / before - 1:+.1%}"


def summary(old: GraphFigures, new: GraphFigures) -> list[list[Row]]:
    """Returns the rows on cycles, time and bytes, which decide whether a model fits."""
    return [list(_cycles(old, new)), list(_bytes(old, new))]


def record(old: GraphFigures, new: GraphFigures) -> dict[str, float | int | None]:
    """Returns the figures before and after as plain numbers, by column.

    Columns of the figures before begin with "before_".
    """
    out: dict[str, float | int | None] = {}
    for start, side in (("before_", old), ("", new)):
        memory = side.footprint
        out |= {
            f"{start}cycles": side.cycles,
            f"{start}corrected_cycles": side.corrected,
            f"{start}calibrated_cycles": side.calibrated,
            f"{start}milliseconds": side.milliseconds,
            f"{start}inferences_per_second": side.milliseconds and 1e3 / side.milliseconds,
            f"{start}sram_bytes": side.sram,
            f"{start}weight_bytes": memory.weights if memory else None,
            f"{start}command_bytes": memory.commands if memory else None,
            f"{start}pte_bytes": side.pte_bytes,
        }
    return out


def sections(old: GraphFigures, new: GraphFigures, bound: Bound | None) -> list[list[Row]]:
    """Returns three sections of rows.

    They have cycles by operator kind, totals with their bounds, and bytes in memory and moved.
    """
    kinds = sorted({*old.by_kind, *new.by_kind}, key=lambda k: -max(old.by_kind.get(k, 0), new.by_kind.get(k, 0)))
    cycles = [(k, old.by_kind.get(k, 0), new.by_kind.get(k, 0)) for k in kinds]
    return [[_row(*c) for c in cycles if any(c[1:])], list(_totals(old, new, bound)), list(_memory(old, new))]


def _cycles(old: GraphFigures, new: GraphFigures) -> Iterator[Row]:
    yield _row("calibrated cycles", old.calibrated, new.calibrated)
    yield _row("Vela's total", old.cycles, new.cycles)
    if _totals_differ(old, new):
        yield _row("corrected total", old.corrected, new.corrected)
    a, b = old.milliseconds, new.milliseconds
    yield Row("milliseconds", _number(a), _number(b), "")
    yield Row("inferences per second", _number(a and 1e3 / a), _number(b and 1e3 / b), "")


def _number(value: float | None) -> str:
    """Formats a number with three digits, "-" for 0 and None."""
    return "-" if not value else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _totals(old: GraphFigures, new: GraphFigures, bound: Bound | None) -> Iterator[Row]:
    yield from _cycles(old, new)
    if bound and bound.roofline:
        for name, least in (("over the roofline", bound.roofline), ("over the bound by operators", bound.operators)):
            yield Row(name, _over(old, least), _over(new, least), "")
        yield Row("MAC utilisation", _used(old, bound), _used(new, bound), "")
    a, b = old.stream, new.stream
    if a or b:
        yield _row("commands", a.commands if a else None, b.commands if b else None)


def _over(side: GraphFigures, least: float) -> str:
    return f"{side.cycles / least:.2f}" if side.cycles else "-"


def _used(side: GraphFigures, bound: Bound) -> str:
    return f"{bound.mac_cycles / side.cycles:.1%}" if side.cycles else "-"


def _bytes(old: GraphFigures, new: GraphFigures) -> Iterator[Row]:
    a, b = old.footprint, new.footprint
    yield _row("SRAM in use, bytes", old.sram, new.sram)
    yield _row("flash: weights", a.weights if a else None, b.weights if b else None)
    yield _row("flash: commands", a.commands if a else None, b.commands if b else None)
    if new.pte_bytes is not None:
        yield _row(".pte file", old.pte_bytes, new.pte_bytes)


def _memory(old: GraphFigures, new: GraphFigures) -> Iterator[Row]:
    yield from _bytes(old, new)
    a, b = old.footprint, new.footprint
    for memory in dict.fromkeys(m for f in (a, b) if f for m in f.memory):
        for what in ("read", "written"):
            before, after = (f.memory.get(memory, {}).get(what, 0) if f else None for f in (a, b))
            if before or after:
                yield _row(f"{memory}: {what}", before, after)


def _row(what: str, old: int | None, new: int | None) -> Row:
    ratio = f"{new / old:.3f}" if old and new is not None else ""
    before, after = (f"{n:,}" if n is not None else "-" for n in (old, new))
    return Row(what, before, after, ratio)


def proof_line(proved: bool, undecided: Sequence[str]) -> str:
    """Returns the line on whether a verified result is proved, and where the proof ended."""
    if proved:
        return "proved for every input: yes"
    where = f", undecided at {'; '.join(undecided)}" if undecided else ""
    return f"proved for every input: no, compared on samples{where}"


def binary_line(equal: bool | None, reason: str, proved: bool | None, samples: int = 0) -> str:
    """Returns the line on whether a binary computes what its graph does:
    on samples, or for every input.

    samples: how many were compared; 0 if that is not known.
    """
    right = "yes, proved for every input" if proved else f"yes, on {f'{samples} ' if samples else ''}samples"
    answer = {True: right, False: f"no: {reason}", None: f"not run: {reason}"}
    return f"verified in the binary: {right if proved else answer[equal]}"


def settings_line(settings: Sequence[Sequence[str]]) -> str:
    """Returns the line with the settings of Vela by which delegates are compiled."""
    return f"settings of Vela: {'; '.join(' '.join(some) or 'none' for some in settings)}"


def as_text(head: Row, parts: list[list[Row]]) -> str:
    """Returns a table as text, with a blank line between sections."""
    widths = [max(len(r[i]) for r in (head, *(r for part in parts for r in part))) for i in range(len(head))]

    def line(row: Row) -> str:
        first, *rest = (cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(row, widths)))
        return "  ".join([first, *rest]).rstrip()

    return "\n\n".join("\n".join(map(line, part)) for part in [[head, *parts[0]], *parts[1:]] if part)


def as_html(head: Row, parts: list[list[Row]], lines: Sequence[str] = ()) -> str:
    """Returns a table and the lines below it as HTML, for notebooks."""

    def cells(row: Row, tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in row)}</tr>"

    bodies = "".join(f"<tbody>{''.join(cells(r, 'td') for r in part)}</tbody>" for part in parts)
    table = f"<table><thead>{cells(head, 'th')}</thead>{bodies}</table>"
    return table + "".join(f"<p>{escape(line)}</p>" for line in lines)
