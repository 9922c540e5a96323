"""`eqsat compile`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import (
    BAD_INPUT,
    FAILED,
    STEPPED_BACK,
    Column,
    ConfigOption,
    JsonOption,
    MemoryOption,
    SaveOption,
    SystemOption,
    TargetOption,
    app,
    compile_spec,
    console,
    fail,
    lines,
    quiet,
    show,
    status,
)
from eqsat.cli.options import OptionsMaker, takes_options
from eqsat.files import InputError, check_output
from eqsat.target import TargetError


@app.command("compile")
@takes_options
def compile_command(
    model: Annotated[
        str, typer.Argument(help="a saved quantized ExportedProgram (.pt2), file.py:callable or module:callable")
    ],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .pte file to write")],
    *,
    system_config: SystemOption = None,
    memory_mode: MemoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    save: SaveOption = None,
    options: OptionsMaker,
) -> None:
    """Lower a PyTorch model to a .pte whose Ethos-U delegates are optimized."""
    quiet()
    try:
        check_output(output)
        if save:
            from eqsat.runs import check_place

            check_place(save)
        spec = compile_spec(target, system_config, memory_mode, config)
        from eqsat.executorch.compiling import compile_model

        with status.status("starting") as line:
            chosen = options()
            summary = compile_model(model, spec, output, chosen, lambda text: line.update(f"{model}: {text}"), save)
    except (InputError, TargetError) as e:
        raise fail(str(e), BAD_INPUT) from e
    except Exception as e:  # noqa: BLE001 - one line for a user, whatever ExecuTorch raises
        raise fail(
            f"{model} could not be compiled for {target}: {type(e).__name__}: {' '.join(str(e).split())[:400]}", FAILED
        ) from e
    if as_json:
        print(json.dumps(summary.as_dict()))
    else:
        show(
            Column(summary.cycles["stock"], summary.by_kind["stock"], summary.memory["stock"], summary.stock_pte_bytes),
            Column(summary.cycles["eqsat"], summary.by_kind["eqsat"], summary.memory["eqsat"], summary.pte_bytes),
            summary.bound,
            f"{model} on {target}, Vela {summary.vela}",
        )
        lines(
            summary.verified,
            summary.deviations,
            summary.stock_verified,
            summary.coverage,
            summary.seconds,
            summary.warnings,
        )
        console.print(
            f"calibrated on: {summary.calibration}\nwrote {output} ({summary.pte_bytes} bytes, {summary.delegates} delegate(s))",
            highlight=False,
        )
    if summary.stepped_back:
        raise typer.Exit(STEPPED_BACK)
