"""`eqsat report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import REFUTED, app, console, quiet, show_standings


@app.command()
def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="a directory that `eqsat bench` wrote")],
    against: Annotated[
        Path | None,
        typer.Option(
            help="an older run to compare with; the exit code is 1 if anything became worse by more than --noise"
        ),
    ] = None,
    noise: Annotated[
        float,
        typer.Option(
            min=0,
            metavar="SHARE",
            help="share of cycles by which a cell may differ, such as 0.04",
        ),
    ] = 0.0,
    out: Annotated[
        Path | None, typer.Option("--output", "-o", help="directory of the report (default: RUN/report)")
    ] = None,
) -> None:
    """Write the tables and pictures of a run: RUN/report/index.html, which works offline, and report.md."""
    quiet()
    from eqsat.report import RecordedRun, compare, write
    from eqsat.report.compare import changes

    new = RecordedRun.read(run)
    comparison = compare(new, RecordedRun.read(against), noise) if against else None
    written = write(new, out or run / "report", comparison)
    show_standings(new)
    console.say(f"wrote {written[1]} and {written[0].name} beside it")
    if comparison:
        table = changes(comparison)
        console.say("\n".join([table.note, *(["", *table.markdown()] if table.rows else [])]))
        if comparison.regressions:
            raise typer.Exit(REFUTED)
