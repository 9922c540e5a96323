"""`eqsat fit`: compares measured cycles with both totals and fits the price of a command."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqsat.cli.common import BAD_INPUT, FAILED, app, fail, quiet
from eqsat.cli.terminal import visible
from eqsat.ground.files import InputError, read_bytes
from eqsat.target import Target

if TYPE_CHECKING:
    from cost_models.measured import Measurement
    from eqsat.ground.worker import Worker

_COLUMNS = ("file", "target", "cycles")


@dataclass(frozen=True, slots=True)
class _Row:
    """A row of the CSV, with Vela's total in cycles, None if the file has none."""

    given: Measurement
    target: str
    vela: int | None


@app.command("fit")
def fit_command(
    measured: Annotated[
        Path,
        typer.Argument(
            help="a CSV with the columns file (a TOSA flatbuffer, or a compiled model), target and cycles (as the device counts them)"
        ),
    ],
) -> None:
    """Lay cycles that you measured beside Vela's total and the price of the commands, and fit the price of a
    command."""
    quiet()
    from cost_models.measured import fit, per_command
    from eqsat.ground.process import WorkerError
    from eqsat.ground.worker import Worker

    try:
        with Worker() as via:
            rows = [_row(measured.parent, line, via) for line in _lines(measured)]
        found = fit([r.given for r in rows])
    except ValueError as e:  # also InputError, TargetError and DeviceError
        raise fail(f"{measured}: {e}", BAD_INPUT) from e
    except WorkerError as e:
        raise fail(f"{measured}: {e}", FAILED) from e
    print(f"{'file':32} {'target':14} {'measured':>14} {'Vela':>14} {'commands':>14} {'fit':>8}")
    for r, error in zip(rows, found.errors, strict=True):
        vela = "-" if r.vela is None else f"{r.vela:,}"
        print(
            f"{visible(r.given.name):32} {r.target:14} {r.given.measured:14,} {vela:>14} {r.given.priced:14,} {error:+8.1%}"
        )
    shares = ", ".join(f"{share:.3f} of the price on {family}" for family, share in found.shares.items())
    print(f"fit: {shares}, and {found.price:,.0f} cycles per command; r.m.s. error {found.rms:.1%}")
    if price := per_command([r.given for r in rows]):
        for family, share in found.shares.items():
            print(f"--command-cycles {price / share:.0f} ranks graphs for {family} by it")
    else:
        print("no price per command is borne out: its sign hangs on one of the measurements")


def _lines(path: Path) -> list[dict[str, str]]:
    """Reads the rows of a CSV. Raises InputError."""
    try:
        with path.open(newline="") as f:
            lines = list(csv.DictReader(f))
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise InputError(f"no CSV: {e}") from e
    if not lines or not all(line.get(c) for line in lines for c in _COLUMNS):
        raise InputError(f"a CSV with the columns {', '.join(_COLUMNS)} in each row is needed")
    return lines


def _row(place: Path, line: dict[str, str], via: Worker) -> _Row:
    """Reads the file of a row and prices it. Raises InputError, TargetError, DeviceError and WorkerError."""
    from cost_models.command_stream import price
    from cost_models.measured import Measurement
    from eqsat.executorch.binaries import read
    from eqsat.vela.compile import compile_tosa

    file, target = place / line["file"], Target.of(line["target"])
    try:
        cycles = int(line["cycles"])
    except (TypeError, ValueError):
        cycles = 0
    if cycles < 1:
        raise InputError(f"{line['file']}: {line['cycles']!r} is no number of cycles")
    data, vela = read_bytes(file), None
    if file.suffix == ".tosa":
        estimate = compile_tosa(data, target, via)
        stream, vela = estimate.stream, estimate.cycles
    else:
        stream = read(data).binary.stream
    found = price(stream, target)
    return _Row(
        Measurement(line["file"], target.family.name, found.commands, found.cycles, cycles), target.accelerator, vela
    )
