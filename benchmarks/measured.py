"""Compares cost models of whole graphs with measured cycles.

    python -m benchmarks.measured CELLS.csv FOLDER --ini FILE --json > FILE.json
    python -m benchmarks.measured CELLS.csv FOLDER --ini FILE --model file.py:price
    python -m benchmarks.measured CELLS.csv FOLDER --ini FILE --fit --out benchmarks/results/measured

CELLS.csv has a row for each measurement. Its columns are model (NAME of NAME.tflite or NAME.tosa in FOLDER), target and
measured_fvp (cycles of one inference); memory_mode and system_config where they are not the usual ones. A file of your
own may have `file` and `cycles` in place of `model` and `measured_fvp`; give several files by commas.
Columns with a version of Vela (`vela_version_compiled`) leave one row for each cell.

Each model is compiled by the installed Vela for the cell's target and memory mode. Its cost models are:

- vela: Vela's total;
- uncalibrated: the price of the commands by Vela's constants;
- calibrated: the price that decides (`cost_models/calibration.py`);
- any of your own, `file.py:function` or `module:function`: it takes a command stream and its `Target`, and returns
  cycles.

What counts for a ranking is the spread: the standard deviation of the logarithm of price over measurement.
--fit chooses the calibration's constants anew, once with all cells and once without each network and configuration,
and judges each choice on the cells that it was made without.

Takes a compilation for each cell; --fit prices each some hundred times.
"""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import itemgetter
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

from benchmarks.study import about, arguments, listed, markdown_table, write_about, write_lines, write_text
from benchmarks.tflite import compile_tflite
from cost_models import calibration
from cost_models.calibration import Calibration, Constant
from cost_models.command_stream import price
from eqsat.bench.records import Record
from eqsat.device.core.errors import DeviceError
from eqsat.ground.files import InputError, read_bytes
from eqsat.ground.process import WorkerError
from eqsat.ground.registry import Registry
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa

#: The system configurations of Arm's evaluation kit that the public cells were measured with.
_SYSTEMS = {
    "ethos-u55": "Ethos_U55_High_End_Embedded",
    "ethos-u65": "Ethos_U65_High_End",
    "ethos-u85": "Ethos_U85_SYS_DRAM_Low",
    "ethos-u85-512": "Ethos_U85_SYS_DRAM_Mid_512",
    "ethos-u85-1024": "Ethos_U85_SYS_DRAM_Mid_1024",
    "ethos-u85-2048": "Ethos_U85_SYS_DRAM_High_2048",
}
_PACKAGES = ("eqsat", "ethos-u-vela")
_MODELS = Registry("cost model", "cost_models.streams", {})
#: A price of a compiled model: (its command streams, target) -> cycles.
Model = Callable[[bytes, Target], float]


@dataclass(frozen=True, slots=True)
class Cell:
    """A model on a target, compiled, with the cycles that were measured.

    cycles: Vela's total. streams: the command streams.
    group: the family of configurations, or "single operators".
    """

    model: str
    target: Target
    memory_mode: str
    measured: int
    cycles: int
    streams: Sequence[bytes]
    group: str

    def record(self) -> Record:
        place = {"model": self.model, "target": self.target.accelerator, "memory_mode": self.memory_mode}
        return {**place, "group": self.group, "measured": self.measured}

    @property
    def name(self) -> str:
        return _name(self.record())

    def price(self, by: Model) -> float:
        return sum(by(stream, self.target) for stream in self.streams)


def read_cells(paths: Iterable[Path]) -> list[dict[str, str]]:
    """Returns the rows of CSV files, one for each cell, with the columns model, target, measured_fvp and the others.

    Raises InputError for a file that cannot be read or lacks columns.
    """
    out: dict[tuple[str, str, str, str], dict[str, str]] = {}
    for path in paths:
        try:
            with path.open(newline="") as f:
                lines = list(csv.DictReader(f))
        except (OSError, UnicodeDecodeError, csv.Error) as e:
            raise InputError(f"{path} is no CSV: {e}") from e
        for line in lines:
            row = {**line, "model": line.get("model") or line.get("file") or ""}
            row["measured_fvp"] = line.get("measured_fvp") or line.get("cycles") or ""
            if not row["model"] or not row.get("target") or not row["measured_fvp"].isdigit():
                raise InputError(f"{path}: a row needs the columns model, target and measured_fvp (cycles): {line}")
            out[row["model"], row["target"], row.get("memory_mode") or "", row.get("system_config") or ""] = row
    return list(out.values())


def target_of(row: Mapping[str, str], ini: Path | None) -> Target:
    """Returns the target of a row; raises TargetError."""
    accelerator = row["target"]
    family = accelerator.rpartition("-")[0]
    system = row.get("system_config") or (_SYSTEMS.get(accelerator, _SYSTEMS.get(family)) if ini else None)
    mode = row.get("memory_mode") or None
    return Target.of(accelerator, system_config=system, memory_mode=mode, config=str(ini) if ini else None)


def compile_cells(
    rows: Sequence[Mapping[str, str]], folder: Path, ini: Path | None, skipped: list[str]
) -> Iterator[Cell]:
    """Yields the cells, compiled.

    skipped: gets a line for each cell that cannot be priced: its model is not there, its target is not known, Vela
    refuses it, or leaves all of it to the CPU.
    """
    with Worker() as via:
        for row in rows:
            mode = row.get("memory_mode") or ""
            try:
                target, path = target_of(row, ini), _file(folder, row["model"])
                compiled, streams = _compile(path, target, via)
                if not streams:
                    raise InputError("it has no commands for the NPU")
                for stream in streams:
                    price(stream, target)
            except (ValueError, WorkerError) as e:
                skipped.append(f"{row['model']} {row['target']} {mode}: {e}")
                continue
            measured, group = int(row["measured_fvp"]), _group(target, compiled)
            yield Cell(row["model"], target, mode, measured, compiled.cycles, streams, group)


def _compile(path: Path, target: Target, via: Worker) -> tuple[Estimate, Sequence[bytes]]:
    """Returns Vela's estimate of a .tosa or .tflite file, and its command streams."""
    if path.suffix == ".tosa":
        compiled = compile_tosa(read_bytes(path), target, via)
        return compiled, [compiled.stream]
    parts = compile_tflite(read_bytes(path), target, via)
    return parts, parts.streams


def _file(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.tflite", folder / f"{name}.tosa"):
        if path.is_file():
            return path
    raise InputError(f"there is neither {name}.tflite nor {name}.tosa in {folder}")


def _group(target: Target, compiled: Estimate) -> str:
    """Returns the group of a cell: single operators, or the configurations that share their constants."""
    if len({row.source or row.name for row in compiled.operators if row.operator != "MemoryCopy"}) == 1:
        return "single operators"
    if (name := target.family.name.upper()) != "U85":
        return name
    return "U85-128, -256" if target.core.macs <= 256 else "U85-512 to -2048"


def price_cells(cells: Sequence[Cell], own: Mapping[str, Model]) -> list[Record]:
    """Returns a record for each cell, with its prices by all cost models; raises DeviceError."""
    models: dict[str, Callable[[Cell], float]] = {
        "vela": lambda c: c.cycles,
        "uncalibrated": lambda c: c.price(lambda s, t: price(s, t, calibration.vela_constants(t)).cycles),
        "calibrated": lambda c: c.price(lambda s, t: price(s, t).cycles),
        **{name: lambda c, f=f: c.price(f) for name, f in own.items()},  # type: ignore[misc]
    }
    return [{**c.record(), "prices": {name: f(c) for name, f in models.items()}} for c in cells]


def _name(record: Record) -> str:
    return f"{record['model']} {record['target']} {record['memory_mode']}"


def judge(ratios: Mapping[str, float]) -> dict[str, Any]:
    """Returns number, spread, geometric mean, and the cell whose ratio is farthest from 1, of ratios by cell."""
    logs = {name: math.log(r) for name, r in ratios.items()}
    spread, mean = pstdev(logs.values()), math.exp(fmean(logs.values()))
    worst = max(logs, key=lambda name: abs(logs[name]))
    told = {"cell": worst, "ratio": round(ratios[worst], 3)}
    return {"cells": len(logs), "spread": round(spread, 4), "mean": round(mean, 4), "worst": told}


def judgements(records: Sequence[Record]) -> dict[str, dict[str, dict[str, Any]]]:
    """Returns {group: {cost model: its judgement}}."""
    groups: dict[str, list[Record]] = {}
    for r in sorted(records, key=itemgetter("group")):
        groups.setdefault(r["group"], []).append(r)
    return {
        group: {m: judge({_name(r): r["prices"][m] / r["measured"] for r in found}) for m in found[0]["prices"]}
        for group, found in groups.items()
    }


# ---- fitting ------------------------------------------------------------------------------------------------------


class Fit:
    """The choice of constants for the cells of one group, single operators apart.

    Each constant is tried at its ends, at Vela's figure and at its value, `per_command` in steps between its ends,
    one after the other, until none changes.
    """

    #: Values of `per_command` that are tried between its ends.
    STEPS = 8
    #: The least improvement of the sum of squares for which a constant leaves its value.
    LEAST = 0.02

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells, self.constants = list(cells), calibration.constants(cells[0].target)
        self._log = cache(self._log_ratio)

    def _log_ratio(self, k: int, at: Calibration) -> float:
        cell = self.cells[k]
        return math.log(cell.price(lambda s, t: price(s, t, at).cycles) / cell.measured)

    def choose(self, cells: Sequence[int]) -> Calibration:
        """Returns the constants that fit the cells with these numbers best."""
        at, before = calibration.calibration(self.cells[0].target), None
        while at != before:
            before = at
            for name, constant in self.constants.items():
                tried = [replace(at, **{name: value}) for value in _values(name, constant)]  # type: ignore[arg-type]
                best = min(tried, key=lambda c: self._squares(c, cells))
                if self._squares(best, cells) < (1 - self.LEAST) * self._squares(at, cells):
                    at = best
        return at

    def _squares(self, at: Calibration, cells: Sequence[int]) -> float:
        return sum(self._log(k, at) ** 2 for k in cells)

    def left_out(self, part_of: Callable[[Cell], str]) -> tuple[dict[str, Calibration], dict[str, float]]:
        """Returns, for each part of the cells, the constants without it, and the ratios of all cells by these."""
        chosen: dict[str, Calibration] = {}
        ratios: dict[str, float] = {}
        for part in sorted({part_of(c) for c in self.cells}):
            inside = [k for k, c in enumerate(self.cells) if part_of(c) == part]
            if rest := [k for k in range(len(self.cells)) if k not in inside]:
                chosen[part] = self.choose(rest)
                ratios |= {self.cells[k].name: math.exp(self._log(k, chosen[part])) for k in inside}
        return chosen, ratios


def _values(name: str, constant: Constant) -> list[float]:
    if name != "per_command":
        return sorted({constant.value, constant.low, constant.high, constant.vela})
    return [constant.low + (constant.high - constant.low) * k / Fit.STEPS for k in range(Fit.STEPS + 1)]


def fits(cells: Sequence[Cell]) -> dict[str, dict[str, Any]]:
    """Returns, for each group of configurations, the constants, and how they do where they were not fitted."""
    out: dict[str, dict[str, Any]] = {}
    for group in sorted({c.group for c in cells} - {"single operators"}):
        fit = Fit([c for c in cells if c.group == group])
        networks, by_network = fit.left_out(lambda c: c.model)
        configurations, by_configuration = fit.left_out(lambda c: c.target.accelerator)
        every = _told(fit.choose(range(len(fit.cells))), fit)
        without = {part: _told(at, fit) for part, at in {**networks, **configurations}.items()}
        out[group] = {
            "all": every,
            "without a network": judge(by_network),
            "without a configuration": judge(by_configuration) if by_configuration else None,
            "changes": {part: told for part, told in without.items() if told != every},
        }
    return out


def _told(at: Calibration, fit: Fit) -> dict[str, float]:
    return {name: getattr(at, name) for name, c in fit.constants.items() if c.low < c.high}


def table(records: Sequence[Record], fitted: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Returns the judgements, the fits and all cells as Markdown."""
    lines = ["# Prices of whole graphs against measured cycles", "", *_judgement_table(records)]
    for group, fit in (fitted or {}).items():
        lines += [f"## Constants of {group}", "", f"With all cells: {_listed(fit['all'])}.", ""]
        for how in ("without a network", "without a configuration"):
            if found := fit[how]:
                lines.append(f"- {how}: spread {found['spread']:.3f}, mean {found['mean']:.3f}")
        lines += [f"- without {part}: {_listed(told)}" for part, told in fit["changes"].items()] + [""]
    columns = ("cell", "group", "measured", *records[0]["prices"])
    rows = (
        [_name(r), r["group"], f"{r['measured']:,}", *(f"{c / r['measured']:.3f}" for c in r["prices"].values())]
        for r in records
    )
    return "\n".join([*lines, "## Price over measured cycles", "", *markdown_table(columns, rows, names=2)])


def _listed(told: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in told.items())


def _judgement_table(records: Sequence[Record]) -> list[str]:
    """Returns the lines of the table: spread, geometric mean and worst cell by group and cost model."""
    rows = []
    for group, by in judgements(records).items():
        told = (f"{j['spread']:.3f} / {j['mean']:.2f} / {j['worst']['ratio']:.2f}" for j in by.values())
        rows.append([group, next(iter(by.values()))["cells"], *told])
    return markdown_table(("spread / mean / worst", "cells", *records[0]["prices"]), rows)


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("cells", metavar="CELLS.csv", help="measurements; several files by commas")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the models, NAME.tflite or NAME.tosa")
    parser.add_argument("--ini", type=Path, help="Vela's configuration file, with the clocks and memories")
    parser.add_argument("--model", default="", help="cost models of your own, file.py:function; several by commas")
    parser.add_argument("--fit", action="store_true", help="choose the constants of the calibration anew")
    parser.add_argument("--json", action="store_true", help="print JSON in place of tables")
    parser.add_argument("--out", type=Path, help="directory for the record")
    given = parser.parse_args(argv)
    skipped: list[str] = []
    try:
        own = {name: _MODELS.find_callable(name, "command stream", "target") for name in listed(given.model)}
        rows = read_cells(map(Path, listed(given.cells)))
        cells = list(compile_cells(rows, given.folder, given.ini, skipped))
        if not cells:
            raise InputError(f"no cell can be priced: {'; '.join(skipped) or 'there are none'}")
        records = price_cells(cells, own)
        fitted = fits(cells) if given.fit else None
    except (ValueError, DeviceError) as e:
        parser.exit(2, f"error: {e}\n")
    rounded = [{**r, "prices": {name: round(c) for name, c in r["prices"].items()}} for r in records]
    told = {**about(_PACKAGES), "groups": judgements(records), "fits": fitted, "cells": rounded, "skipped": skipped}
    for line in skipped:
        print(f"skipped: {line}", file=sys.stderr)
    text = table(records, fitted)
    print(json.dumps(told, indent=1) if given.json else text)
    if given.out:
        write_about(given.out, _PACKAGES, groups=told["groups"], fits=fitted)
        write_lines(given.out / "cells.jsonl", rounded)
        write_text(given.out / "table.md", text + "\n")


if __name__ == "__main__":
    main()
