"""What `eqsat compile` and `eqsat optimize` do alike: check the places, search, show the result and write it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.text import Text

from eqsat.cli.common import NOT_AS_ASKED, JsonOption, ReportOption, console, failures, print_json, quiet
from eqsat.cli.interrupt import ends_search_first
from eqsat.cli.live import COMMAND, Work, working
from eqsat.ground.files import check_distinct, check_outputs, write_atomically
from eqsat.search.clock import name_stage
from eqsat.search.interruption import Interruption
from eqsat.target import Target
from eqsat.target.accelerators import sections_of

if TYPE_CHECKING:
    from eqsat.executorch.compiling import CompileSummary
    from eqsat.options.options import Options
    from eqsat.search.figures import GraphFigures
    from eqsat.search.result import Result
    from eqsat.vela.roofline import Bound

T = TypeVar("T")

#: The verdict where stock's graph is wrong.
_NO_PEER = "nothing to compare: what stock ExecuTorch makes computes something else"


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The parameters of both commands, besides the optimizer's options."""

    target: Annotated[str, typer.Option("--target", "-t", help="accelerator configuration, such as ethos-u85-256")]
    output: Annotated[Path, typer.Option("--output", "-o", help="the file to write (compile: .pte, optimize: .tosa)")]
    system_config: Annotated[
        str | None, typer.Option(help="Vela system config (default: ExecuTorch's for the target)")
    ] = None
    memory_mode: Annotated[str | None, typer.Option(help="Vela memory mode (default: ExecuTorch's for the target)")] = (
        None
    )
    config: Annotated[str | None, typer.Option(help="Vela .ini file")] = None
    as_json: JsonOption = False
    brief: Annotated[bool, typer.Option("--quiet", "-q", help="print warnings and errors only, no figures")] = False
    save: Annotated[
        Path | None,
        typer.Option("--save", help="also save the run in this directory, for `eqsat explain` and `eqsat.runs`"),
    ] = None
    report: ReportOption = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What one of the commands found.

    whole: its verdicts, warnings and figures; results: of the delegates, by name.
    content: of the output; about: more about it. record: the figures as a JSON object.
    compared: the figures before and after, by their names; bound: the fewest cycles that these graphs need.
    complete: whether eqsat's own search gave all of it.
    save: saves the runs of the search; page: arguments of `write_page`.
    note, lines: lines above and below the table of figures; kept: why nothing was gained.
    """

    whole: Result | CompileSummary
    results: Mapping[str, Result]
    content: bytes
    record: Mapping[str, Any]
    compared: Mapping[str, GraphFigures]
    bound: Bound | None
    complete: bool
    save: Callable[[Path], None]
    page: Mapping[str, Any]
    about: str = ""
    note: str = ""
    lines: Sequence[str] = ()
    kept: str = ""


def answer(
    subject: str,
    failing: str,
    job: Job,
    options: Callable[[], Options],
    read: Callable[[], T],
    work: Callable[[T, Target, Options, Interruption, Work], Answer],
    inputs: Sequence[Path],
) -> None:
    """Does the work of a command on `subject`, and shows and writes what it found. Raises typer.Exit.

    failing: what could not be done if the command fails.
    read: checks and returns the command's own input, or raises InputError.
    work: searches, and shows what it does; may raise any exception.
    inputs: the files that are read, which no output may replace.
    """
    quiet()
    failing = f"{subject} {failing} {job.target}"
    with failures(failing):
        target = Target.of(job.target, system_config=job.system_config, memory_mode=job.memory_mode, config=job.config)
        _check_places(job, target, inputs)
        given, chosen, interruption = read(), options(), Interruption()
        if job.save or job.report:
            chosen = replace(chosen, remember=False)  # both show the search, and a remembered result has none
        with working(f"{subject} for {job.target}") as progress, ends_search_first(interruption.ask):
            found = work(given, target, chosen, interruption, progress)
    if not job.as_json:  # before anything is written, so that a full disk does not cost the figures
        _show(found, f"{subject} on {job.target}, Vela {found.whole.vela}", chosen, job.brief)
    fits = not any(r.nearest for r in found.results.values())
    figures = {**found.record, "configuration": target.configuration, "options": chosen.record(), "fits": fits}
    with failures(failing, figures):
        write_atomically(job.output, found.content)
        if job.save:
            found.save(job.save)
        if job.report:
            from eqsat.report import write_page

            with working(f"the report of {subject}"):
                write_page(job.report, rules=chosen.rules, **found.page)
    if job.as_json:
        print_json(figures)
    elif not job.brief:
        console.say(f"wrote {job.output} ({len(found.content)} bytes{found.about})")
        if job.report:
            console.say(f"wrote {job.report}")
        _show_shortfalls(found.results)
    if not (found.complete and fits):
        raise typer.Exit(NOT_AS_ASKED)


def _check_places(job: Job, target: Target, inputs: Sequence[Path]) -> None:
    """Checks the paths of outputs, and the target without importing PyTorch. Raises TargetError and InputError."""
    files, read = {"-o": job.output, "--report": job.report}, [*inputs, *([Path(job.config)] if job.config else [])]
    check_outputs(files, read)
    if job.save:
        from eqsat.runs import check_place

        check_place(job.save)
        check_distinct({**files, "--save": job.save}, read)
    sections_of(target)


def _show(found: Answer, title: str, chosen: Options, brief: bool) -> None:
    """Prints the figures, details of the search, warnings and the verdicts; if brief, only the warnings."""
    from eqsat.options.options import PARETO
    from eqsat.report.compiled import points
    from eqsat.search.figures import equality, summary, tables, verdict
    from eqsat.search.result import about_search

    results, (before, after) = list(found.results.values()), found.compared.values()
    if not brief:
        if found.note:
            console.say(found.note)
        for table in tables(found.compared, found.bound) if COMMAND.level else [summary(found.compared)]:
            console.say("\n".join([*table.plain(), ""]))
        for r in results if chosen.objective == PARETO else ():
            console.say("\n".join(["Pareto set", *points(r.record()).plain()]))
        coverage = f"operators modelled: {min((r.coverage for r in results), default=0.0):.0%}"
        seconds = [_seconds(found.whole.seconds)] if COMMAND.level else []
        one = len(results) == 1  # of several delegates, the line of each has it
        paid = [results[0].price_of_limits] if one and results[0].price_of_limits else []
        for line in (*found.lines, *about_search(results), *paid, coverage, *seconds):
            console.say(line)
    for text in found.whole.warnings:
        console.print("[yellow]warning:[/yellow]", Text(text), highlight=False)
    if brief:
        return
    console.say(title, "bold")
    is_wrong = before.calibrated is None and any(r.stock_verified is False for r in results)
    console.say(_NO_PEER if is_wrong else verdict(before, after), "bold")
    least = min(results, key=lambda r: (r.binary_verified or 0, r.binary_proved or 0), default=None)
    undecided = [u for r in results for u in r.undecided]
    whole = {"verified": found.whole.verified, "proved": found.whole.proved, "undecided": undecided}
    for line in equality({**(vars(least) if least else {}), **whole}):
        console.say(line)
    if found.kept:
        console.say(found.kept, "bold")


def _seconds(stages: Mapping[str, float]) -> str:
    """Returns the seconds of the command until now, and of its stages, some of which run in parallel."""
    shown = ", ".join(f"{name_stage(k)} {v:.1f}" for k, v in stages.items() if v >= 0.05)
    return f"seconds: {time.perf_counter() - COMMAND.started:.1f} in all; by stage, some at once: {shown}"


def _show_shortfalls(results: Mapping[str, Result]) -> None:
    """Prints by how much results, by the names of their delegates, exceed the limits of memory."""
    for name, text in ((name, r.shortfall) for name, r in results.items() if r.nearest):
        console.print(Text(f"{name} {text}" if len(results) > 1 else text, "bold red"), highlight=False)
