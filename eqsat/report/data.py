"""The records of a run, each with the baseline that it is compared with, and the comparison of two runs."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from eqsat.bench.cells import BEST, EQSAT, EXPLICIT, LITERT, RANKED_BY, STOCK
from eqsat.bench.records import CellKey, ChosenGraphs, Record, place, read_about, read_outlines, read_records
from eqsat.ground.files import InputError
from eqsat.ground.table import Table, ratio
from eqsat.search.figures import GraphFigures
from eqsat.vela.compile import Footprint

#: Kinds of operators in the order of tables and bars, with their colours, which people with red-green colour blindness
#: can tell apart. Arithmetic comes first, then kinds that only move or rescale data, in warm colours.
KIND_COLOURS = {
    "convolution": "#808792",
    "matmul": "#0072b2",
    "pooling": "#56b4e9",
    "reduce": "#9ecae1",
    "elementwise": "#bdbdbd",
    "rescale": "#f0e442",
    "transpose": "#d55e00",
    "memory copy": "#e69f00",
}
#: eqsat's own stages, in the order in which they run; ExecuTorch's run before them.
OWN_STAGES = ("explicit passes", "import", "saturate", "price", "extract", "given graphs", "vela", "verify")
STAGES = ("load and quantize", "lowering", "stock passes", "convert", "quantize", *OWN_STAGES)


@dataclass
class RecordedRun:
    """The records of a run by (model, target, configuration).

    The baseline of a cell is stock's record if it has figures and computes what the model does.
    Otherwise it is the graph without layout passes; a `.tosa` file has no other.
    """

    directory: Path
    records: dict[CellKey, Record]
    about: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def read(directory: Path) -> RecordedRun:
        """Reads the records of a directory. Raises InputError if there are none, or for what cannot be read."""
        records = {place(r): r for r in read_records(directory)}
        if not records:
            raise InputError(
                f"{directory} has no records.jsonl with records: make a run with `eqsat bench --out {directory}`"
            )
        return RecordedRun(directory, records, read_about(directory))

    def _parts(self, i: int) -> list[str]:
        return list(dict.fromkeys(p[i] for p in self.records))

    @property
    def models(self) -> list[str]:
        return self._parts(0)

    @property
    def targets(self) -> list[str]:
        return self._parts(1)

    @property
    def configurations(self) -> list[str]:
        """The configurations, those of baselines first."""
        return sorted(self._parts(2), key=lambda c: (c != STOCK, c != EXPLICIT))

    @property
    def optimized(self) -> list[str]:
        return [c for c in self.configurations if c.split(":")[0] == EQSAT]

    @property
    def vela(self) -> tuple[str, ...]:
        """The versions of Vela behind the run's cycles."""
        return tuple(sorted({r["vela"] for r in self.records.values() if "error" not in r}))

    def get(self, model: str, target: str, configuration: str) -> Record | None:
        """Returns the record if it has figures."""
        record = self.records.get((model, target, configuration))
        return record if record and "error" not in record else None

    def stock(self, model: str, target: str, configuration: str = STOCK) -> Record | None:
        """Returns stock's record, or another peer's, if it has figures and is not known to compute something else."""
        record = self.get(model, target, configuration)
        return record if record and record.get("verified") is not False else None

    def baseline(self, model: str, target: str) -> Record | None:
        return self.stock(model, target) or self.get(model, target, EXPLICIT)

    def by_model(
        self, target: str, configuration: str, figure: Callable[..., float | None], *more: Any
    ) -> dict[str, float]:
        """Returns a figure of each model that has it; `figure` takes the cell and `more`."""
        return {m: x for m in self.models if (x := figure(m, target, configuration, *more)) is not None}

    def peer(self, model: str, target: str) -> Record | None:
        """Returns the best of stock, stock-best and LiteRT, without CPU operators; None if stock is the only one."""
        if not {BEST, LITERT} & set(self.configurations):
            return None
        peers = (self._whole(model, target, c) for c in (STOCK, BEST, LITERT) if self.stock(model, target, c))
        return min((p for p in peers if p), key=lambda p: p[RANKED_BY], default=None)

    def _whole(self, model: str, target: str, configuration: str) -> Record | None:
        """Returns the record if it has figures and leaves nothing to the CPU."""
        record = self.get(model, target, configuration)
        return record if record and not record.get("cpu_operators") else None

    def bound(self, model: str, target: str) -> dict[str, float] | None:
        """Returns the model's lower bound (`eqsat.vela.roofline.Bound`), which all configurations share."""
        found = (r for p, r in self.records.items() if p[:2] == (model, target))
        return next((r["bound"] for r in found if "bound" in r), None)

    def over(self, model: str, target: str, configuration: str, bound: str = "roofline") -> float | None:
        """Returns the cycles of a cell over a bound of its model; None if operators stay on the CPU."""
        record, least = self._whole(model, target, configuration), self.bound(model, target)
        return record["cycles"] / least[bound] if record and least and least[bound] else None

    def utilisation(self, model: str, target: str, configuration: str) -> float | None:
        """Returns the share of a cell's cycles that its model's MACs need at the full rate."""
        over = self.over(model, target, configuration, "mac_cycles")
        return 1 / over if over else None

    def to_baseline(self, model: str, target: str, configuration: str, name: str = RANKED_BY) -> float | None:
        """Returns a figure of a cell, by its name, over that of its baseline."""
        return quotient(self.get(model, target, configuration), self.baseline(model, target), name)

    def over_peer(self, model: str, target: str, configuration: str) -> float | None:
        """Returns the calibrated cycles of a cell over those of the best peer."""
        return quotient(self._whole(model, target, configuration), self.peer(model, target), RANKED_BY)

    def over_best(self, model: str, target: str, configuration: str) -> float | None:
        """Returns the calibrated cycles of a cell over those of stock at its best."""
        return quotient(self._whole(model, target, configuration), self.stock(model, target, BEST), RANKED_BY)

    def find_chosen(self, record: Record) -> ChosenGraphs | None:
        """Returns the graphs that Vela compiled for a cell, None if the directory has none. Raises InputError."""
        return self._outlines.get(place(record))

    @cached_property
    def _outlines(self) -> dict[CellKey, ChosenGraphs]:
        return read_outlines(self.directory)


def quotient(record: Record | None, base: Record | None, name: str) -> float | None:
    """Returns a figure (of `GraphFigures`) of a record over that of another one; None if one of them has none."""
    a, b = (None if r is None else getattr(graph_figures(r), name) for r in (record, base))
    return a / b if a is not None and b else None


def graph_figures(record: Record) -> GraphFigures:
    """Returns the figures of a record's graphs; bytes in flash that it does not have are None."""
    told = defaultdict[str, Any](lambda: None, record)
    flash = told["command_bytes"], told["encoded_weight_bytes"], told["pte_bytes"]
    footprint = Footprint(record["memory"].get("Sram", {}).get("peak"), *flash, record["memory"])
    figures = {name: told[name] for name in ("cycles", "by_kind", "pte_bytes", "calibrated")}
    return GraphFigures(**figures, footprint=footprint)


def geometric_mean(values: Iterable[float]) -> float:
    """Returns the geometric mean: 0 if a value is, and not a number without values."""
    known = list(values)
    if not all(known):
        return 0.0
    return statistics.geometric_mean(known) if known else math.nan


def total(record: Record, stages: Sequence[str] = STAGES) -> float:
    """Returns the seconds of a record in the given stages."""
    return float(sum(s for stage, s in record["seconds"].items() if stage in stages))


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
    only_new, only_old, common: number of cells that only one run has, and that both have.
    noise: as for `compare`. vela: the versions of Vela of the new run and of the old one.
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
    for cell in common:
        a, b = old.records[cell], new.records[cell]
        before, after = _state(a), _state(b)
        if "error" in a or "error" in b:
            if before != after:
                found.append(Change(*cell, before, after, None, "error" in b))
            continue
        over = quotient(b, a, RANKED_BY)
        broken = a["verified"] is True and b["verified"] is False
        mended = a["verified"] is False and b["verified"] is True
        if broken or mended or (over is not None and abs(over - 1) > noise):
            found.append(Change(*cell, before, after, over, broken or (over is not None and over > 1 + noise)))
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
