"""`eqsat compile`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from eqsat.cli.common import (
    BAD_INPUT,
    FAILED,
    STEPPED_BACK,
    Column,
    ConfigOption,
    JsonOption,
    MemoryOption,
    QuantizationOption,
    ReportOption,
    SaveOption,
    SystemOption,
    TargetOption,
    app,
    causes,
    check_report,
    check_target,
    console,
    fail,
    lines,
    print_json,
    quiet,
    show,
    show_points,
)
from eqsat.cli.interrupt import ends_search_first
from eqsat.cli.live import working
from eqsat.cli.options import OptionsMaker, takes_options
from eqsat.executorch.names import INT8, check_quantization, model_place
from eqsat.files import InputError, check_output
from eqsat.search.interruption import Interruption
from eqsat.target import TargetError

if TYPE_CHECKING:
    from eqsat.egraph.rule import Rule
    from eqsat.executorch.compiling import CompileSummary


def _write_page(page: Path, summary: CompileSummary, rules: Sequence[Rule]) -> None:
    from eqsat.report import write_page

    outside = ", ".join(f"{name} {n}" for name, n in summary.cpu_operators.items())
    facts = {
        "on the CPU": outside or "nothing",
        "calibrated on": summary.calibration,
        ".pte": f"{summary.pte_bytes:,} bytes"
        + (f", {summary.stock_pte_bytes:,} by stock ExecuTorch" if summary.stock_pte_bytes else ""),
    }
    errors = [d["text"] for d in summary.by_delegate if d["error"]]
    write_page(page, summary.results, title=summary.model, rules=rules, facts=facts, warnings=errors)


@app.command("compile")
@takes_options
def compile_command(
    model: Annotated[
        str,
        typer.Argument(
            help="a saved quantized ExportedProgram (.pt2), file.py:callable, module:callable or an entry point in the group eqsat.models"
        ),
    ],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .pte file to write")],
    *,
    quantization: QuantizationOption = INT8,
    system_config: SystemOption = None,
    memory_mode: MemoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    save: SaveOption = None,
    report: ReportOption = None,
    options: OptionsMaker,
) -> None:
    """Lower a PyTorch model to a .pte whose Ethos-U delegates are optimized."""
    quiet()
    try:
        check_output(output)
        check_report(report)
        check_target(target, config)
        model_place(model)
        check_quantization(quantization, model)
        if save:
            from eqsat.runs import check_place

            check_place(save)
        chosen = options()
        interruption = Interruption()
        with working(f"{model} for {target}") as progress, ends_search_first(interruption.ask):
            progress.show("importing ExecuTorch")
            from executorch.backends.arm.ethosu import EthosUCompileSpec

            from eqsat.executorch.compiling import compile_model

            spec = EthosUCompileSpec(target.lower(), system_config, memory_mode, config_ini=config)
            summary = compile_model(model, spec, output, chosen, save, interruption, quantization)
        if report:
            with working(f"the report of {model}"):
                _write_page(report, summary, chosen.rules)
    except (InputError, TargetError) as e:
        raise fail(str(e), BAD_INPUT) from e
    except Exception as e:  # noqa: BLE001 - said in words, whatever ExecuTorch raises
        raise fail(f"{model} could not be compiled for {target}: {causes(e)}", FAILED) from e
    if as_json:
        print_json(summary.as_dict())
    else:
        before, after = (
            Column(
                summary.cycles[side], summary.by_kind[side], summary.memory[side], size, summary.command_stream[side]
            )
            for side, size in (("stock", summary.stock_pte_bytes), ("eqsat", summary.pte_bytes))
        )
        show(
            before,
            after,
            summary.bound,
            f"{model} on {target}, Vela {summary.vela}",
        )
        lines(
            summary.verified,
            summary.deviations,
            summary.stock_verified,
            list(zip(summary.binary_verified, summary.binary_reasons, strict=True)),
            summary.coverage,
            summary.seconds,
            summary.warnings,
            summary.passed_over,
        )
        for delegate in summary.by_delegate if summary.delegates > 1 else ():
            console.print(Text(delegate["text"]), soft_wrap=True)
        outside = ", ".join(f"{name} {n}" for name, n in summary.cpu_operators.items())
        console.print(Text(f"on the CPU: {outside or 'nothing'}"), soft_wrap=True)
        if chosen.objective == "pareto":
            show_points(summary.points)
        console.print(
            f"calibrated on: {summary.calibration}\nwrote {output} ({summary.pte_bytes} bytes, {summary.delegates} delegate(s))"
            + (f"\nwrote {report}" if report else ""),
            highlight=False,
        )
    if summary.stepped_back:
        raise typer.Exit(STEPPED_BACK)
