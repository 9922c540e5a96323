"""What measurements say of a price per command, besides Vela's cycles: public ones on Arm's own models, or yours.

    python -m benchmarks.fvp --out benchmarks/results/fvp/summary.md
    python -m benchmarks.fvp --measured FILE.csv

`cycles.csv` has 38 cells: a model of Arm's ML Zoo (and yolo-fastest of Emza's) on a configuration of U55 or U65, with
the operators and total of Vela 5.0 and the NPU's cycles of one inference on the Corstone FVP, which counts in steps of
about 1,000. Source: github.com/Kwon-GiHwan/mps4_prototyping_board, docs/paper/analysis/scaling.csv (commit 5e719e16)
joined with docs/paper/evidence/vela-matrix-20260824/vela_matrix.csv (commit de272c81); figures only.

Operators stand for commands, which are at least as many, so that the price fitted is one for each command at most.

A CSV of your own has the columns file (a TOSA flatbuffer, or a compiled model), target and cycles (as the device counts
them); they are laid beside Vela's total (of flatbuffers) and the price of the commands (`cost_models/command_stream`).

The fit is `measured = share * priced + price * commands`, by least squares of the relative errors. There is a share for
each family and one price of a command, which counts only if it stays positive whichever model is left out.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.about import RESULTS, arguments, markdown_table, write_text
from cost_models.command_stream import price
from eqsat.executorch.binaries import read
from eqsat.ground.files import InputError, read_bytes
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.vela.compile import compile_tosa

#: The public measurements.
CELLS = RESULTS / "fvp/cycles.csv"
#: The columns of a CSV of your own.
_COLUMNS = ("file", "target", "cycles")


@dataclass(frozen=True, slots=True)
class Measurement:
    """Cycles of one model, called `name`.

    commands: how many its stream has
    priced  : cycles by the cost model, without a price for commands
    measured: cycles on the device
    """

    name: str
    family: str
    commands: int
    priced: int
    measured: int


@dataclass(frozen=True, slots=True)
class Fit:
    """The result of a fit.

    shares: {family: factor of the priced cycles}
    price : cycles per command
    errors: the relative error of each measurement
    """

    shares: dict[str, float]
    price: float
    errors: tuple[float, ...]

    @property
    def rms(self) -> float:
        return float(np.sqrt(np.mean(np.square(self.errors))))


def fit(given: Sequence[Measurement]) -> Fit:
    """Fits the shares and the price to measurements.

    Raises ValueError if there are not more measurements than figures to find.
    """
    families = sorted({m.family for m in given})
    if len(given) <= len(families) + 1:
        raise ValueError(f"{len(given)} measurements for {len(families) + 1} figures: measure more")
    rows = [[m.priced * (m.family == f) / m.measured for f in families] + [m.commands / m.measured] for m in given]
    found, *_ = np.linalg.lstsq(np.array(rows), np.ones(len(rows)), rcond=None)
    errors = np.array(rows) @ found - 1
    return Fit(dict(zip(families, found.tolist())), float(found[-1]), tuple(errors.tolist()))


def without_each(given: Sequence[Measurement]) -> dict[str, Fit]:
    """Returns {name: the fit without it}, without names whose absence leaves too few measurements."""
    parts = {name: [m for m in given if m.name != name] for name in sorted({m.name for m in given})}
    return {name: fit(part) for name, part in parts.items() if len(part) > len({m.family for m in part}) + 1}


def per_command(given: Sequence[Measurement]) -> float:
    """Returns the fitted cycles per command, 0 if its sign depends on one model."""
    found = fit(given).price
    return found if min([found, *(f.price for f in without_each(given).values())]) > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Cell(Measurement):
    """A measurement of a model on a configuration.

    Its commands are the operators, its price is Vela's total, and it is measured in cycles of the FVP.
    macs: MACs per cycle of the configuration.
    """

    macs: int


def cells(path: Path = CELLS) -> list[Cell]:
    """Returns the cells of a file like `cycles.csv`."""
    with path.open() as f:
        return [
            Cell(
                r["model"],
                r["npu"],
                int(r["npu_operators"]),
                int(r["vela_cycles_total"]),
                int(r["fvp_cycles"]),
                int(r["macs"]),
            )
            for r in csv.DictReader(f)
        ]


def summary(given: Sequence[Cell]) -> str:
    """Returns the fits with all models and without each, and the errors of all cells, as Markdown."""
    whole, without = fit(given), without_each(given)
    lines = [
        "# A price per command, fitted to public measurements",
        "",
        f"{len(given)} cells; what they bear out: {per_command(given):.0f} cycles per command, besides those of Vela.",
        "",
    ]
    fits = [
        [name, *(f"{f.shares[k]:.3f}" for k in ("ethos-u55", "ethos-u65")), f"{f.price:,.0f}", f"{f.rms:.1%}"]
        for name, f in {"all": whole, **{f"without {m}": f for m, f in without.items()}}.items()
    ]
    lines += markdown_table(("fit", "share U55", "share U65", "cycles per operator", "r.m.s. error"), fits)
    rows = [
        [
            f"{c.family}-{c.macs}",
            c.name,
            f"{c.priced:,}",
            f"{c.measured:,}",
            f"{c.priced / c.measured:.3f}",
            f"{e:+.1%}",
        ]
        for c, e in zip(given, whole.errors, strict=True)
    ]
    head = ("configuration", "model", "Vela", "FVP", "Vela over FVP", "error of the fit")
    return "\n".join([*lines, *markdown_table(head, rows, names=2)])


def measured(path: Path) -> str:
    """Returns a CSV's measurements beside Vela's total and the price of the commands, with the fit.

    Raises ValueError, also InputError, TargetError and DeviceError, and WorkerError.
    """
    with Worker() as via:
        rows = [_row(path.parent, line, via) for line in _lines(path)]
    given = [m for m, _ in rows]
    found = fit(given)
    lines = [f"{'file':32} {'measured':>14} {'Vela':>14} {'commands':>14} {'fit':>8}"]
    for (m, vela), error in zip(rows, found.errors, strict=True):
        shown = "-" if vela is None else f"{vela:,}"
        lines.append(f"{m.name:32} {m.measured:14,} {shown:>14} {m.priced:14,} {error:+8.1%}")
    shares = ", ".join(f"{share:.3f} of the price on {family}" for family, share in found.shares.items())
    lines.append(f"fit: {shares}, and {found.price:,.0f} cycles per command; r.m.s. error {found.rms:.1%}")
    if not per_command(given):
        lines.append("no price per command is borne out: its sign hangs on one of the measurements")
    return "\n".join(lines) + "\n"


def _lines(path: Path) -> list[dict[str, str]]:
    """Reads the rows of a CSV. Raises InputError."""
    try:
        with path.open(newline="") as f:
            lines = list(csv.DictReader(f))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"{path} is no CSV: {e}") from e
    if not lines or not all(line.get(c) for line in lines for c in _COLUMNS):
        raise InputError(f"{path}: a CSV with the columns {', '.join(_COLUMNS)} in each row is needed")
    return lines


def _row(place: Path, line: dict[str, str], via: Worker) -> tuple[Measurement, int | None]:
    """Reads and prices the file of a row. Returns it with Vela's total, None if the file has none."""
    file, target, vela = place / line["file"], Target.of(line["target"]), None
    data = read_bytes(file)
    if file.suffix == ".tosa":
        estimate = compile_tosa(data, target, via)
        stream, vela = estimate.stream, estimate.cycles
    else:
        stream = read(data).binary.stream
    found = price(stream, target)
    return Measurement(line["file"], target.family.name, found.commands, found.cycles, int(line["cycles"])), vela


def main(argv: Sequence[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path, help="write the tables there, too")
    parser.add_argument(
        "--measured", type=Path, metavar="CSV", help="your own measurements in place of the public ones"
    )
    given = parser.parse_args(argv)
    try:
        text = measured(given.measured) if given.measured else summary(cells())
    except ValueError as e:
        parser.exit(2, f"error: {e}\n")
    print(text, end="")
    if given.out:
        write_text(given.out, text)


if __name__ == "__main__":
    main()
