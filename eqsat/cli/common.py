"""The common parts of commands: the app, shared options, and the display of failures."""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
import sysconfig
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
import typer.core
from rich.text import Text

from eqsat.cli.interrupt import stops_command
from eqsat.cli.live import COMMAND, TextConsole
from eqsat.cli.options import with_parameters
from eqsat.ground.files import InputError, LoweringError, OutputError, PluginError
from eqsat.ground.versions import PACKAGES, versions
from eqsat.vela.facts import PACKAGE as VELA

if TYPE_CHECKING:
    from eqsat.report import RecordedRun

#: Exit codes, each with one meaning in all commands (docs/commands.md).
REFUTED, BAD_INPUT, FAILED, NOT_AS_ASKED, UNDECIDED = 1, 2, 3, 4, 5

#: Number of the schema of printed JSON. Keys may be added under one number, but none is renamed or removed.
SCHEMA = 1


Command = TypeVar("Command", bound=Callable[..., Any])


#: The commands in the order of `eqsat --help`: those that most users need come first.
_BY_USE = ("compile", "optimize", "exec", "explain", "prove", "run", "disassemble", "bench", "report", "cache", "rules")


class _TypesOfValues:
    """In `--help`, only parameters that take a value show a type."""

    def get_params(self, ctx: Any) -> list[Any]:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for p in parameters:
            if getattr(p, "is_flag", False) or getattr(p, "count", False):
                p.metavar = ""
        return parameters  # type: ignore[no-any-return]


class _Command(_TypesOfValues, typer.core.TyperCommand):
    pass


class Group(_TypesOfValues, typer.core.TyperGroup):
    """A group of commands."""


class _Commands(Group):
    def list_commands(self, ctx: Any) -> list[str]:
        return sorted(super().list_commands(ctx), key=lambda name: (*_BY_USE, name).index(name))


class App(typer.Typer):
    """An app whose commands all have the options of `_everywhere`, and end with BAD_INPUT on an InputError."""

    def command(self, name: str | None = None, **kwargs: Any) -> Callable[[Command], Command]:
        register = super().command(name, cls=_Command, **kwargs)

        def added(command: Command) -> Command:
            register(_with_options_everywhere(command))
            return command

        return added


app = App(
    cls=_Commands,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    help="Equality saturation for PyTorch models on Arm Ethos-U.",
)


def _everywhere(
    *,
    verbose: Annotated[
        int, typer.Option("--verbose", "-v", count=True, help="log the main steps; -vv logs every step")
    ] = 0,
    debug: Annotated[
        bool,
        typer.Option(
            "--debug", help="log everything, and show tracebacks and the output of ExecuTorch, PyTorch and Vela"
        ),
    ] = False,
) -> None:
    COMMAND.level, COMMAND.debug, COMMAND.started = verbose, debug, time.perf_counter()


def _with_options_everywhere(command: Callable[..., None]) -> Callable[..., None]:
    own, added = (inspect.signature(f, eval_str=True).parameters for f in (command, _everywhere))

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        _everywhere(**{name: given.pop(name) for name in added})
        COMMAND.quiet, COMMAND.as_json = given.get("brief") is True, given.get("as_json") is True
        console.failure = ""
        try:
            with failures("the command failed"):
                command(**given)
        finally:
            if console.failure:
                raise fail(f"the output cannot be printed: {console.failure}", FAILED)

    return with_parameters(wrapped, [*own.values(), *added.values()])


#: The packages that decide what a result is, besides eqsat.
_NAMED = (VELA, "executorch", "tosa-tools", "egglog")


def _show_versions(asked: bool) -> None:
    if asked:
        print("\n".join(f"{name} {version}" for name, version in versions(["eqsat", *_NAMED]).items()))
        raise typer.Exit


@app.callback()
def _every_command(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=_show_versions,
            is_eager=True,
            help="print the versions of eqsat, Vela and other packages",
        ),
    ] = False,
) -> None:
    with failures("temporary files cannot be made"):
        context.with_resource(stops_command())


console = TextConsole()
status = TextConsole(stderr=True)

JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")]
QuantizationOption = Annotated[
    str,
    typer.Option(help="quantization of Python models: int8, or a16w8 (INT16 activations and INT8 weights)"),
]
ReportOption = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="also write one HTML file that shows costs, graphs, the search, and each change with its reason",
    ),
]


def print_json(data: dict[str, Any]) -> None:
    """Prints one object on stdout, with the number of its schema."""
    console.write(json.dumps({"schema": SCHEMA, **data}))


def fail(message: str, code: int, known: Mapping[str, Any] | None = None) -> typer.Exit:
    """Reports a failure on stderr and returns the exception to raise.

    With --debug it prints the traceback of the current exception, else a plug-in's own part of it if that failed.
    With --json the error is also printed on stdout, with all known figures.
    An output that could not be written always has the code FAILED.
    """
    error = sys.exc_info()[1]
    code = FAILED if isinstance(error, OutputError) else code
    try:
        if error is not None and COMMAND.debug:
            status.say("".join(traceback.format_exception(error)))
        elif isinstance(error, PluginError) and len(own := _own_frames(error)) > 1:
            status.print("".join(traceback.format_list(own)), end="", markup=False, highlight=False, soft_wrap=True)
        status.print("[red]error:[/red]", Text(message), soft_wrap=True, highlight=False)
        if COMMAND.as_json:
            print_json({"error": {"message": message, "exit_code": code}, **(known or {})})
    except MemoryError:  # nothing that is loaded can be trusted to end by itself then
        os.write(2, f"error: {message}\n".encode(errors="replace"))
        os._exit(code)
    return typer.Exit(code)


@contextmanager
def failures(what: str, known: Mapping[str, Any] | None = None) -> Iterator[None]:
    """Ends the command on every exception within: with BAD_INPUT for bad input of the user, else with FAILED.

    what: the action that failed. known: the figures that are known at that time, for --json.
    """
    try:
        yield
    except typer.Exit:
        raise
    except InputError as e:
        raise fail(str(e), BAD_INPUT, known) from e
    except LoweringError as e:
        raise fail(f"{what}: {e}", FAILED, known) from e
    except Exception as e:  # noqa: BLE001 - reported in words, also where there is no memory to import what is needed
        raise fail(f"{what}: {causes(e)}", FAILED, known) from e


def _own_frames(error: BaseException) -> list[traceback.FrameSummary]:
    """Returns the frames of the deepest cause in the user's own code: not of installed packages or this project."""
    while (cause := _cause(error)) is not None:
        error = cause
    ours = [Path(m.__file__).parent for n in PACKAGES if (m := sys.modules.get(n)) is not None and m.__file__]
    others = [*map(str, ours), *(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib")), "<"]
    frames = traceback.extract_tb(error.__traceback__)
    return [f for f in frames if not f.filename.startswith(tuple(others))]


def causes(error: BaseException) -> str:
    """Returns the deepest cause of an exception in full, and the exceptions that it led to, one line each."""
    chain = [error]
    while (cause := _cause(chain[-1])) is not None and cause not in chain:
        chain.append(cause)
    first = f"{type(chain[-1]).__name__}: {str(chain[-1]).strip()}"
    led_to = [f"  which led to {type(e).__name__}: {' '.join(str(e).split())[:200]}" for e in reversed(chain[:-1])]
    return "\n".join([first, *led_to])


def _cause(error: BaseException) -> BaseException | None:
    return error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def quiet() -> None:
    """Silences warnings, of which torch and executorch emit many; eqsat's own are shown in the summary."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def show_standings(run: RecordedRun) -> None:
    """Prints the standings of a benchmark run, a row per target and configuration."""
    from eqsat.report.write import standings

    for line in standings(run).plain():
        console.say(line)
