"""`eqsat bench` and `eqsat report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn, TimeRemainingColumn

from eqsat.cli.common import FAILED, REFUTED, QuantizationOption, app, console, quiet, show_standings, status
from eqsat.cli.interrupt import on_interrupt_say
from eqsat.executorch.names import INT8
from eqsat.ground.files import InputError

_TARGETS = "ethos-u55-128,ethos-u65-256,ethos-u85-256"


@app.command()
def bench(
    models: Annotated[
        list[str] | None,
        typer.Option(
            help="models to measure: names from the zoo, `zoo` for the entire zoo, `deployed` for the deployed "
            "networks outside the zoo, .tosa, .pt2, file.py:callable or module:callable; separate them by commas, or "
            "repeat the option",
            show_default="zoo",
        ),
    ] = None,
    targets: Annotated[
        list[str] | None,
        typer.Option(
            help="accelerator configurations, each with ExecuTorch's memory mode or one after an @, for example "
            "ethos-u85-256@Shared_Sram; separate them by commas, or repeat the option",
            show_default=_TARGETS,
        ),
    ] = None,
    configuration: Annotated[
        list[str] | None,
        typer.Option(
            "--configuration",
            "-c",
            help="stock, stock-best, stock-without-layout-passes, eqsat, or eqsat with options, "
            "for example eqsat:preset=none,extractor=dag_greedy; may be repeated (default: stock and eqsat)",
        ),
    ] = None,
    quantization: QuantizationOption = INT8,
    out: Annotated[Path, typer.Option(help="directory of the run; an existing run is continued")] = Path("RUN"),
    jobs: Annotated[
        int, typer.Option(min=1, metavar="NUMBER", help="number of cells measured at the same time on this machine")
    ] = 1,
    time_limit: Annotated[float, typer.Option(help="time limit per cell, in seconds")] = 1800,
    memory_limit: Annotated[float, typer.Option(help="memory limit per cell, in MiB")] = 8192,
) -> None:
    """Measure models on targets in several configurations, and write one record per cell to OUT/records.jsonl.

    A cell is one model on one target in one configuration.
    """
    quiet()
    from eqsat import bench as library

    names = _models(_split_names(models or ["zoo"]))
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), "left:", TimeRemainingColumn()
    with Progress("{task.description}", *columns, console=status, disable=not status.is_terminal) as bar:
        task = bar.add_task("starting", total=None)

        def progress(done: int, total: int, what: str) -> None:
            bar.update(task, completed=done, total=total, description=" ".join(what.split(":")[0].split()[:2]))
            if done and "there already" not in what:
                status.say(what, "" if "cycles" in what or what.endswith("lowered") else "red")

        on_interrupt_say(f"what is done is in {out}, the same command goes on")
        records = library.run(
            names,
            [_lower_name(target) for target in _split_names(targets or [_TARGETS])],
            configuration or ["stock", "eqsat"],
            out,
            jobs=jobs,
            limits=library.Limits(time_limit, memory_limit),
            quantization=quantization,
            progress=progress,
        )
    failed = [r for r in records if "error" in r]
    console.say(
        f"{len(records)} cells in {out}/records.jsonl, {len(failed)} of them failed; "
        f"`eqsat report {out}` makes tables and pictures"
    )
    if len(failed) == len(records):
        raise typer.Exit(FAILED)
    from eqsat.report.data import RecordedRun

    show_standings(RecordedRun.read(out))


def _split_names(given: list[str]) -> list[str]:
    """Returns the names of an option that takes names separated by commas and may be repeated."""
    return [name for text in given for part in text.split(",") if (name := part.strip())]


def _lower_name(target: str) -> str:
    """Returns a target with the accelerator's name in lower case; names of memory modes keep theirs."""
    accelerator, at, mode = target.partition("@")
    return f"{accelerator.lower()}{at}{mode}"


def _models(given: list[str]) -> list[str]:
    """Returns the named models, each once; a set is replaced by its models. Raises InputError."""
    from eqsat.bench.cells import MODEL_SETS, model_sets

    sets = model_sets() if set(given) & set(MODEL_SETS) else {}
    if not given or any(name in MODEL_SETS and name not in sets for name in given):
        raise InputError("the zoo is found in a clone of the repository only: run there, or name models with --models")
    return list(dict.fromkeys(model for name in given for model in sets.get(name, (name,))))


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
    from eqsat.report.data import changes

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
