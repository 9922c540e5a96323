"""`eqsat compile`."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqsat.cli.common import (
    NOT_AS_ASKED,
    ConfigOption,
    CsvOption,
    JsonOption,
    MemoryOption,
    QuantizationOption,
    QuietOption,
    ReportOption,
    SaveOption,
    SystemOption,
    TargetOption,
    app,
    check_places,
    console,
    failures,
    print_json,
    quiet,
    record_of_job,
    show_answer,
    show_warnings,
    show_written,
    write_csv,
)
from eqsat.cli.interrupt import ends_search_first
from eqsat.cli.live import working
from eqsat.cli.options import OptionsMaker, takes_options
from eqsat.executorch.names import INT8, KEEP, check_layouts, check_quantization, model_place
from eqsat.ground.files import write_atomically
from eqsat.search.interruption import Interruption
from eqsat.target import Target

if TYPE_CHECKING:
    from eqsat.egraph.rule import Rule
    from eqsat.executorch.compiling import CompileSummary
    from eqsat.options.options import Options


def _write_page(page: Path, summary: CompileSummary, rules: Sequence[Rule]) -> None:
    from eqsat.report import write_page

    outside = ", ".join(f"{name} {n}" for name, n in summary.cpu_operators.items())
    ours, stock = (summary.figures[side].pte_bytes for side in ("eqsat", "stock"))
    facts = {
        "on the CPU": outside or "nothing",
        "calibrated on": summary.calibration,
        ".pte": f"{ours:,} bytes" + (f", {stock:,} by stock ExecuTorch" if stock else ""),
    }
    errors = [d["text"] for d in summary.by_delegate if d["error"]]
    write_page(page, summary.results, title=summary.model, rules=rules, facts=facts, warnings=errors)


@app.command("compile")
@takes_options
def compile_command(
    model: Annotated[
        str,
        typer.Argument(
            help="a saved quantized ExportedProgram (.pt2), file.py:callable, module:callable "
            "or an entry point in the group eqsat.models"
        ),
    ],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .pte file to write")],
    *,
    quantization: QuantizationOption = INT8,
    layouts: Annotated[
        str,
        typer.Option(
            help="keep: inputs and outputs keep the layouts of the model; auto: inputs and outputs of rank 4 are "
            "contiguous or channels_last, whichever takes fewer cycles (compiles once for each layout)"
        ),
    ] = KEEP,
    system_config: SystemOption = None,
    memory_mode: MemoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
    brief: QuietOption = False,
    save: SaveOption = None,
    report: ReportOption = None,
    csv: CsvOption = None,
    options: OptionsMaker,
) -> None:
    """Lower a PyTorch model to a .pte whose Ethos-U delegates are optimized."""
    quiet()
    failing = f"{model} could not be compiled for {target}"
    with failures(failing):
        compiled_for = Target.of(target, system_config=system_config, memory_mode=memory_mode, config=config)
        check_places(output, report, csv, compiled_for)
        place = model_place(model)
        check_quantization(quantization, model)
        check_layouts(layouts, place)
        if save:
            from eqsat.runs import check_place

            check_place(save)
        chosen = options()
        if save or report:
            chosen = replace(chosen, remember=False)  # both are of the search
        interruption, begun = Interruption(), time.perf_counter()
        with working(f"{model} for {target}") as progress, ends_search_first(interruption.ask):
            if not place.endswith(".pt2"):
                from eqsat.ground.registry import load

                progress.show(f"importing {place}")
                load(place)  # a name that is not there is told before ExecuTorch takes its seconds
            progress.show("importing ExecuTorch")
            from executorch.backends.arm.ethosu import EthosUCompileSpec

            from eqsat.executorch.compiling import compile_in_best_layout, compile_model, save_runs

            imported = time.perf_counter() - begun
            spec = EthosUCompileSpec(target.lower(), system_config, memory_mode, config_ini=config)
            compiled = compile_model if layouts == KEEP else compile_in_best_layout
            pte, summary = compiled(model, spec, chosen, interruption, quantization)
    summary.seconds = {"import PyTorch and ExecuTorch": round(imported, 3), **summary.seconds}
    if not as_json and brief:
        show_warnings(summary.warnings)
    elif not as_json:  # before anything is written: who has no room for it has the figures
        _show(summary, f"{model} on {target}, Vela {summary.vela}", chosen)
    nearest = [r.nearest and r.nearest._asdict() for r in summary.results.values()]
    job = record_of_job(compiled_for, chosen)
    figures = {**summary.as_dict(), **job, "fits": not any(nearest), "nearest": nearest}
    with failures(failing, figures):
        write_atomically(output, pte)
        if csv:
            write_csv(csv, model, target, summary, (summary.figures["stock"], summary.figures["eqsat"]))
        if save:
            save_runs(summary.results, save, model)
        if report:
            with working(f"the report of {model}"):
                _write_page(report, summary, chosen.rules)
    if as_json:
        print_json(figures)
    elif not brief:
        written = f"{output} ({len(pte)} bytes, {summary.delegates} delegate(s))"
        show_written([written, str(report or "")], summary.results)
    if summary.stepped_back or not figures["fits"]:
        raise typer.Exit(NOT_AS_ASKED)


def _show(summary: CompileSummary, title: str, chosen: Options) -> None:
    stock, ours, left_out = summary.compared()
    results = list(summary.results.values())
    outside = ", ".join(f"{name} {n}" for name, n in summary.cpu_operators.items())
    more = [d["text"] for d in summary.by_delegate] if summary.delegates > 1 else []
    more += [f"on the CPU: {outside or 'nothing'}", f"calibrated on: {summary.calibration}"]
    more += [f"left to the CPU: {o}" for o in summary.left if o.reason]
    if summary.layouts:
        tried = ", ".join(f"{name} {cycles:,}" for name, cycles in summary.layouts.items() if cycles is not None)
        more.append(f"layout of inputs and outputs: {summary.layout} (calibrated cycles: {tried})")
    elif summary.border_transposes:
        more.append(summary.border_transposes.advice(summary.model))
    kept = results[0].kept if summary.delegates == len(results) == 1 else ""
    if left_out:
        console.say(f"compared without {', '.join(left_out)}, where the cycles of stock or of eqsat are not known")
    bound = None if left_out else summary.bound
    show_answer(title, summary, results, chosen, (stock, ours), bound, "stock", more, kept)
