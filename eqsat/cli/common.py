"""What the commands share: the app, the options that several take, how failures and results are shown."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from eqsat.cli.interrupt import stops_command
from eqsat.files import InputError
from eqsat.target import Target
from eqsat.vela.facts import PACKAGE as VELA
from eqsat.versions import versions

if TYPE_CHECKING:
    from eqsat.search.deviation import Deviation
    from eqsat.vela.compile import Footprint
    from eqsat.vela.roofline import Bound

BAD_INPUT, FAILED, STEPPED_BACK, UNSOUND, NOT_EXERCISED = 2, 3, 4, 5, 6

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Equality saturation for PyTorch models on Arm Ethos-U.",
)


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
            "--version", callback=_show_versions, is_eager=True, help="print the versions of eqsat, Vela and others"
        ),
    ] = False,
) -> None:
    context.with_resource(stops_command())


console = Console()
status = Console(stderr=True)

TargetOption = Annotated[str, typer.Option("--target", "-t", help="accelerator configuration, such as ethos-u85-256")]
SystemOption = Annotated[str | None, typer.Option(help="Vela system config (default: ExecuTorch's for the target)")]
MemoryOption = Annotated[str | None, typer.Option(help="Vela memory mode (default: ExecuTorch's for the target)")]
ConfigOption = Annotated[str | None, typer.Option(help="Vela .ini file")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")]
SaveOption = Annotated[
    Path | None,
    typer.Option("--save", help="also save the run to this directory, for `eqsat explain` and `eqsat.runs`"),
]


def fail(message: str, code: int) -> typer.Exit:
    try:
        status.print(f"[red]error:[/red] {message}", soft_wrap=True, highlight=False)
    except MemoryError:  # nothing that is loaded can be trusted to end by itself then
        os.write(2, f"error: {message}\n".encode())
        os._exit(code)
    return typer.Exit(code)


def quiet() -> None:
    """torch and executorch warn a lot on import and lowering; eqsat's own warnings are shown in the summary."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import logging

    logging.disable(logging.WARNING)


def compile_spec(target: str, system_config: str | None, memory_mode: str | None, config: str | None):
    Target.of(target)  # names the known targets for an unknown one
    if config is not None and not Path(config).is_file():
        raise InputError(f"the Vela config file {config} does not exist")
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    return EthosUCompileSpec(target.lower(), system_config, memory_mode, config_ini=config)


@dataclass(frozen=True, slots=True)
class Column:
    """What is shown of one side: Vela's cycles and those by operator kind, the bytes that it takes and those of its .pte, None where that is
    not known."""

    cycles: int | None
    by_kind: dict[str, int]
    footprint: Footprint | None
    pte_bytes: int | None = None


def show(old: Column, new: Column, bound: Bound | None, title: str, before: str = "stock") -> None:
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    table = Table("cycles by operator kind")
    for column in (before, "eqsat", "ratio"):
        table.add_column(column, justify="right")
    for kind in sorted({*old.by_kind, *new.by_kind}, key=lambda k: -max(old.by_kind.get(k, 0), new.by_kind.get(k, 0))):
        if old.by_kind.get(kind, 0) or new.by_kind.get(kind, 0):
            table.add_row(kind, *_row(old.by_kind.get(kind, 0), new.by_kind.get(kind, 0)))
    table.add_section()
    table.add_row("total", *_row(old.cycles, new.cycles), style="bold")
    if bound and bound.roofline:
        for name, cycles in (("over the roofline", bound.roofline), ("over the bound by operators", bound.operators)):
            table.add_row(name, *(f"{c.cycles / cycles:.2f}" if c.cycles else "-" for c in (old, new)), "")
        used = (f"{bound.mac_cycles / c.cycles:.1%}" if c.cycles else "-" for c in (old, new))
        table.add_row("MAC utilisation", *used, "")
    table.add_section()
    for name, *sizes in _bytes(old, new):
        table.add_row(name, *_row(*sizes))
    console.print(table)


def _bytes(old: Column, new: Column) -> Iterator[tuple[str, int | None, int | None]]:
    """Rows of the table: what, and how many bytes of it before and after."""
    a, b = old.footprint, new.footprint
    yield "SRAM in use, bytes", a.sram if a else None, b.sram if b else None
    yield "flash: weights", a.weights if a else None, b.weights if b else None
    yield "flash: commands", a.commands if a else None, b.commands if b else None
    if new.pte_bytes is not None:
        yield ".pte file", old.pte_bytes, new.pte_bytes
    for memory in dict.fromkeys(m for f in (a, b) if f for m in f.memory):
        for what in ("read", "written"):
            before, after = (f.memory.get(memory, {}).get(what, 0) if f else None for f in (a, b))
            if before or after:
                yield f"{memory}: {what}", before, after


def _row(old: int | None, new: int | None) -> tuple[str, str, str]:
    ratio = f"{new / old:.3f}" if old and new is not None else ""
    return f"{old:,}" if old is not None else "-", f"{new:,}" if new is not None else "-", ratio


def lines(
    verified: bool,
    deviations: list[Deviation | None],
    stock_verified: list[bool | None],
    coverage: float,
    seconds: dict[str, float],
    messages: list[str],
) -> None:
    for m in messages:
        console.print(f"[yellow]warning:[/yellow] {m}", highlight=False)
    if False in stock_verified:
        console.print(
            "[yellow]stock ExecuTorch's own result differs from the model for this graph; its cycles are no fair comparison[/yellow]"
        )
    for d in filter(None, deviations):
        console.print(d.text, highlight=False, soft_wrap=True)
    if not any(deviations):
        console.print(f"verified bit for bit: {'yes' if verified else 'no'}", highlight=False)
    console.print(f"operators modelled: {coverage:.0%}", highlight=False)
    console.print("seconds: " + ", ".join(f"{k} {v:.1f}" for k, v in seconds.items() if v >= 0.05), highlight=False)
