"""`eqsat report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import REFUTED, app, bad_input, console, quiet, show_standings
from eqsat.ground.files import InputError


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN...", help="directories made by `eqsat bench`")],
    into: Annotated[Path | None, typer.Option(help="join several runs, such as shards, to one in this place")] = None,
    against: Annotated[
        Path | None,
        typer.Option(help="an older run to compare with; exit code 1 if anything became worse beyond noise"),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            min=0,
            help="share of cycles by which a cell of eqsat may differ whose choice is not proved in both runs; "
            "all others may not differ",
        ),
    ] = 0.04,
    out: Annotated[Path | None, typer.Option("--output", "-o", help="where to write (default: RUN/report)")] = None,
) -> None:
    """Write a run's tables and pictures: RUN/report/index.html, which needs no network, and report.md."""
    quiet()
    with bad_input():
        run = _joined(runs, into)
        from eqsat.report import RecordedRun, compare, write
        from eqsat.report.compare import markdown

        new = RecordedRun.read(run)
        comparison = compare(new, RecordedRun.read(against), noise) if against else None
        written = write(new, out or run / "report", comparison)
    show_standings(new)
    console.say(f"wrote {written[1]} and {written[0].name} beside it")
    if comparison:
        console.say(markdown(comparison))
        if comparison.regressions:
            raise typer.Exit(REFUTED)


def _joined(runs: list[Path], into: Path | None) -> Path:
    """Returns the directory of the only run, or of several joined into one. Raises InputError."""
    if into is None:
        if len(runs) > 1:
            raise InputError(f"{len(runs)} runs: say with --into where they are to be one")
        return runs[0]
    from eqsat.bench.shards import merged

    merged(runs, into)
    return into
