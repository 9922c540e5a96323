"""The command line. Exit codes: 0 done; 2 bad input; 3 ExecuTorch, Vela or the disk failed; 4 written, but a delegate is stock's
because eqsat stepped back; 130 interrupted."""
from __future__ import annotations

import json
import os
import warnings
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from eqsat.files import InputError, check_output, read_bytes, write_atomically
from eqsat.target import Target, TargetError

BAD_INPUT, FAILED, STEPPED_BACK, INTERRUPTED = 2, 3, 4, 130

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
                  help="Equality saturation for PyTorch models on Arm Ethos-U.")
console = Console()
status = Console(stderr=True)

TargetOption = Annotated[str, typer.Option("--target", "-t", help="accelerator configuration, such as ethos-u85-256")]
SystemOption = Annotated[str | None, typer.Option(help="Vela system config (default: ExecuTorch's for the target)")]
MemoryOption = Annotated[str | None, typer.Option(help="Vela memory mode (default: ExecuTorch's for the target)")]
ConfigOption = Annotated[str | None, typer.Option(help="Vela .ini file")]
JsonOption = Annotated[bool, typer.Option("--json", help="print one JSON object instead of tables")]


def _fail(message: str, code: int) -> typer.Exit:
    status.print(f"[red]error:[/red] {message}", soft_wrap=True, highlight=False)
    return typer.Exit(code)


def _quiet() -> None:
    """torch and executorch warn a lot on import and lowering; eqsat's own warnings are shown in the summary."""
    warnings.filterwarnings("ignore")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")
    import logging

    logging.disable(logging.WARNING)


@app.command("compile")
def compile_command(
    model: Annotated[str, typer.Argument(help="a saved quantized ExportedProgram (.pt2), file.py:callable or module:callable")],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .pte file to write")],
    system_config: SystemOption = None, memory_mode: MemoryOption = None, config: ConfigOption = None, as_json: JsonOption = False,
) -> None:
    """Lower a PyTorch model to a .pte whose Ethos-U delegates are optimized."""
    _quiet()
    try:
        check_output(output)
        spec = _compile_spec(target, system_config, memory_mode, config)
        from eqsat.compiling import compile_model
        from eqsat.optimizer import Options

        with status.status("starting") as line:
            summary = compile_model(model, spec, output, Options(), lambda text: line.update(f"{model}: {text}"))
    except (InputError, TargetError) as e:
        raise _fail(str(e), BAD_INPUT) from e
    except KeyboardInterrupt as e:
        raise _fail("interrupted; nothing was written", INTERRUPTED) from e
    except Exception as e:  # noqa: BLE001 - one line for a user, whatever ExecuTorch raises
        raise _fail(f"{model} could not be compiled for {target}: {type(e).__name__}: {' '.join(str(e).split())[:400]}", FAILED) from e
    if as_json:
        print(json.dumps(summary.as_dict()))
    else:
        _show(summary.by_kind["stock"], summary.by_kind["eqsat"], summary.cycles["stock"], summary.cycles["eqsat"], f"{model} on {target}")
        _lines(summary.verified, summary.stock_verified, summary.coverage, summary.seconds, summary.warnings)
        console.print(f"calibrated on: {summary.calibration}\nwrote {output} ({summary.pte_bytes} bytes, {summary.delegates} delegate(s))", highlight=False)
    if summary.stepped_back:
        raise typer.Exit(STEPPED_BACK)


@app.command()
def optimize(
    source: Annotated[Path, typer.Argument(help="a .tosa file (TOSA 1.0 flatbuffer)")],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .tosa file to write")],
    system_config: SystemOption = None, memory_mode: MemoryOption = None, config: ConfigOption = None, as_json: JsonOption = False,
) -> None:
    """Optimize a TOSA flatbuffer from any producer; the result equals it bit for bit and never costs more."""
    _quiet()
    try:
        check_output(output)
        flags = Target.from_compile_spec(_compile_spec(target, system_config, memory_mode, config))
        buffer = read_bytes(source)
        from eqsat.optimizer import optimize_tosa
        from eqsat.tosa.flatbuffer import TosaError
        from eqsat.tosa.worker import WorkerError

        try:
            with status.status(f"optimizing {source}"):
                result = optimize_tosa(buffer, flags, name=str(source))
        except TosaError as e:
            raise InputError(str(e)) from e
        except WorkerError as e:
            raise _fail(f"{source} cannot be compiled for {target}: {e}; nothing was written", FAILED) from e
        write_atomically(output, result.tosa)
    except (InputError, TargetError) as e:
        raise _fail(str(e), BAD_INPUT) from e
    except KeyboardInterrupt as e:
        raise _fail("interrupted; nothing was written", INTERRUPTED) from e
    if as_json:
        record = {k: v for k, v in asdict(result).items() if not isinstance(v, bytes)}
        print(json.dumps({"model": str(source), "target": target, "cycles": {"stock": result.explicit_cycles, "eqsat": result.cycles}, **{
            k: v for k, v in record.items() if k != "cycles"}}))
        return
    _show(result.explicit_by_kind, result.by_kind, result.explicit_cycles, result.cycles, f"{source} on {target}", before="before")
    _lines(result.verified, [], result.coverage, result.seconds, result.warnings)
    console.print(f"wrote {output} ({len(result.tosa)} bytes)", highlight=False)


@app.command()
def rules() -> None:
    """List the families and rules with their statements."""
    from eqsat.rules import FAMILIES

    for family in FAMILIES:
        table = Table(title=(family.__doc__ or family.__name__).split("\n")[0], title_justify="left", show_header=False, box=None)
        for r in family.RULES:
            table.add_row(f"[bold]{r.name}[/bold]", r.statement)
        console.print(table)


def _compile_spec(target: str, system_config: str | None, memory_mode: str | None, config: str | None):
    Target.of(target)                                    # names the known targets for an unknown one
    if config is not None and not Path(config).is_file():
        raise InputError(f"the Vela config file {config} does not exist")
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    return EthosUCompileSpec(target.lower(), system_config, memory_mode, config_ini=config)


def _show(old: dict[str, int], new: dict[str, int], old_total: int | None, new_total: int | None, title: str, before: str = "stock") -> None:
    console.print(title, style="bold", soft_wrap=True, highlight=False)
    table = Table()
    for column, justify in (("cycles by operator kind", "left"), (before, "right"), ("eqsat", "right"), ("ratio", "right")):
        table.add_column(column, justify=justify)
    for kind in sorted({*old, *new}, key=lambda k: -max(old.get(k, 0), new.get(k, 0))):
        if old.get(kind, 0) or new.get(kind, 0):
            table.add_row(kind, *_row(old.get(kind, 0), new.get(kind, 0)))
    table.add_section()
    table.add_row("total", *_row(old_total, new_total), style="bold")
    console.print(table)


def _row(old: int | None, new: int | None) -> tuple[str, str, str]:
    ratio = f"{new / old:.3f}" if old and new is not None else ""
    return f"{old:,}" if old is not None else "-", f"{new:,}" if new is not None else "-", ratio


def _lines(verified: bool, stock_verified: list[bool | None], coverage: float, seconds: dict[str, float], messages: list[str]) -> None:
    for m in messages:
        console.print(f"[yellow]warning:[/yellow] {m}", highlight=False)
    if False in stock_verified:
        console.print("[yellow]stock ExecuTorch's own result differs from the model for this graph; its cycles are no fair comparison[/yellow]")
    console.print(f"verified bit for bit: {'yes' if verified else 'no'}; operators modelled: {coverage:.0%}", highlight=False)
    console.print("seconds: " + ", ".join(f"{k} {v:.1f}" for k, v in seconds.items() if v >= 0.05), highlight=False)


if __name__ == "__main__":
    app()
