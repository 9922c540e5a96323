"""`eqsat compile`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqsat.cli.answer import Answer, Job, answer
from eqsat.cli.common import QuantizationOption, app
from eqsat.cli.options import OptionsMaker, takes, takes_options
from eqsat.executorch.names import INT8, KEEP, check_layouts, check_quantization, model_file, model_place

if TYPE_CHECKING:
    from eqsat.cli.live import Work
    from eqsat.executorch.compiling import CompileSummary
    from eqsat.options.options import Options
    from eqsat.search.interruption import Interruption
    from eqsat.target import Target


@app.command("compile")
@takes_options
@takes(job=Job)
def compile_command(
    model: Annotated[
        str,
        typer.Argument(
            help="a saved quantized ExportedProgram (.pt2), file.py:callable, module:callable "
            "or an entry point in the group eqsat.models"
        ),
    ],
    *,
    job: Callable[[], Job],
    quantization: QuantizationOption = INT8,
    layouts: Annotated[
        str,
        typer.Option(
            help="keep: inputs and outputs keep the layouts of the model; auto: inputs and outputs of rank 4 are "
            "contiguous or channels_last, whichever takes fewer cycles (compiles once for each layout)"
        ),
    ] = KEEP,
    options: OptionsMaker,
) -> None:
    """Lower a PyTorch model to a .pte whose Ethos-U delegates are optimized."""

    def checked() -> str:
        place = model_place(model)
        check_quantization(quantization, model)
        check_layouts(layouts, place)
        return place

    work = partial(_compile, model, quantization, layouts)
    inputs = [Path(file)] if (file := model_file(model)) else []
    answer(model, "could not be compiled for", job(), options, checked, work, inputs)


def _compile(
    model: str,
    quantization: str,
    layouts: str,
    place: str,
    target: Target,
    options: Options,
    interruption: Interruption,
    progress: Work,
) -> Answer:
    """Compiles the model. Raises InputError, and whatever ExecuTorch raises."""
    begun = time.perf_counter()
    if not place.endswith(".pt2"):
        from eqsat.ground.registry import load

        progress.show(f"importing {place}")
        load(place)  # a name that is not there is reported before ExecuTorch takes its seconds
    progress.show("importing ExecuTorch")
    from executorch.backends.arm.ethosu import EthosUCompileSpec

    from eqsat.executorch.compiling import compile_in_best_layout, compile_model, save_runs

    imported = time.perf_counter() - begun
    settings = (target.value_of(flag) for flag in ("--system-config", "--memory-mode"))
    spec = EthosUCompileSpec(target.accelerator, *settings, config_ini=target.value_of("--config"))
    compiled = compile_model if layouts == KEEP else compile_in_best_layout
    pte, summary = compiled(model, spec, options, interruption, quantization)
    seconds = {"import PyTorch and ExecuTorch": round(imported, 3), **summary.seconds}
    summary = replace(summary, seconds=seconds)
    stock, ours, left_out = summary.compare()
    results = list(summary.results.values())
    outside = ", ".join(f"{name} {n}" for name, n in summary.cpu_operators.items()) or "nothing"
    return Answer(
        whole=summary,
        results=summary.results,
        content=pte,
        about=f", {summary.delegates} delegate(s)",
        record=summary.as_dict(),
        compared={"stock": stock, "eqsat": ours},
        bound=None if left_out else summary.bound,
        complete=not summary.stepped_back,
        save=lambda place: save_runs(summary.results, place, model),
        page=_page(summary, outside),
        note=f"compared without {', '.join(left_out)}, where the cycles of stock or of eqsat are not known"
        if left_out
        else "",
        lines=_lines(summary, outside),
        kept=results[0].kept if summary.delegates == len(results) == 1 else "",
    )


def _lines(summary: CompileSummary, outside: str) -> list[str]:
    """Returns the lines below the table of figures."""
    lines = [d["text"] for d in summary.by_delegate] if summary.delegates > 1 else []
    lines += [f"on the CPU: {outside}", f"calibrated on: {summary.calibration}"]
    lines += [f"left to the CPU: {o}" for o in summary.left if o.reason]
    if summary.layouts:
        tried = ", ".join(f"{name} {cycles:,}" for name, cycles in summary.layouts.items() if cycles is not None)
        lines.append(f"layout of inputs and outputs: {summary.layout} (calibrated cycles: {tried})")
    elif summary.border_transposes:
        lines.append(summary.border_transposes.advice(summary.model))
    return lines


def _page(summary: CompileSummary, outside: str) -> dict[str, Any]:
    """Returns the arguments of `write_page`."""
    ours, stock = (summary.figures[side].pte_bytes for side in ("eqsat", "stock"))
    facts = {
        "on the CPU": outside,
        "calibrated on": summary.calibration,
        ".pte": f"{ours:,} bytes" + (f", {stock:,} by stock ExecuTorch" if stock else ""),
    }
    errors = [d["text"] for d in summary.by_delegate if d["error"]]
    return {"what": summary.results, "title": summary.model, "facts": facts, "warnings": errors}
