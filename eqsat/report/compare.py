"""Compares two runs: the cells that became worse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from eqsat.bench.cells import RANKED_BY
from eqsat.bench.fields import Record
from eqsat.ground.table import Table, ratio
from eqsat.report.data import RecordedRun, quotient


class Change(NamedTuple):
    """A cell of both runs that changed; ratio: new cycles over old ones, None if a run failed or took no cycles."""

    model: str
    target: str
    configuration: str
    before: str
    after: str
    ratio: float | None
    regression: bool


@dataclass(frozen=True, slots=True)
class RunComparison:
    """The comparison of a new run with an old one.

    changes: those by more than `noise`, the worst first.
    only_new, only_old: number of cells that only that run has.
    common: number of cells that both have.
    noise: the share of cycles by which a cell may differ.
    vela: the versions of Vela of the new run and of the old one.
    """

    changes: tuple[Change, ...]
    only_new: int
    only_old: int
    common: int
    noise: float
    vela: tuple[tuple[str, ...], tuple[str, ...]]

    @property
    def regressions(self) -> tuple[Change, ...]:
        return tuple(c for c in self.changes if c.regression)


def compare(new: RecordedRun, old: RecordedRun, noise: float = 0.0) -> RunComparison:
    """Compares the calibrated cycles of `new` with those of `old`.

    A regression is a cell with more cycles, one that fails now, or one that lost bit-exactness.
    noise: the share by which the cycles of a cell may differ.
    """
    found = []
    common = [p for p in new.records if p in old.records]
    for place in common:
        a, b = old.records[place], new.records[place]
        before, after = _state(a), _state(b)
        if "error" in a or "error" in b:
            if before != after:
                found.append(Change(*place, before, after, None, "error" in b))
            continue
        over = quotient(b, a, RANKED_BY)
        broken = a["verified"] is True and b["verified"] is False
        mended = a["verified"] is False and b["verified"] is True
        if broken or mended or (over is not None and abs(over - 1) > noise):
            found.append(Change(*place, before, after, over, broken or (over is not None and over > 1 + noise)))
    found.sort(key=lambda c: (not c.regression, -(c.ratio if c.ratio is not None else float("inf"))))
    return RunComparison(
        tuple(found),
        len(new.records) - len(common),
        len(old.records) - len(common),
        len(common),
        noise,
        (new.vela, old.vela),
    )


def _state(record: Record) -> str:
    if "error" in record:
        return "failed"
    return f"{record[RANKED_BY]:,}" + (" (not bit-exact)" if record["verified"] is False else "")


def note(c: RunComparison) -> str:
    """Returns the outcome of a comparison in words."""
    new, old = map(" and ".join, c.vela)
    vela = "" if new == old else f" Cycles are of Vela {new} in the new run and of Vela {old} in the old one."
    return (
        f"{c.common} cells compared, {len(c.regressions)} regressions, {len(c.changes) - len(c.regressions)} "
        f"improvements by more than {c.noise:.1%}; "
        f"{c.only_new} only in the new run, {c.only_old} only in the old one.{vela}"
    )


def changes(c: RunComparison) -> Table:
    """Returns the table of a comparison."""
    rows = (("**regression**" if x.regression else "better", *x[:5], ratio(x.ratio)) for x in c.changes)
    header = ("", "model", "target", "configuration", "before", "after", "ratio")
    return Table("Against the other run", note(c), header, tuple(rows), words=4)
