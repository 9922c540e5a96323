"""`eqsat optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqsat.cli.common import (
    FAILED,
    NOT_AS_ASKED,
    ConfigOption,
    CsvOption,
    JsonOption,
    MemoryOption,
    QuietOption,
    ReportOption,
    SaveOption,
    SystemOption,
    TargetOption,
    app,
    check_places,
    fail,
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
from eqsat.ground.files import InputError, read_bytes, write_atomically
from eqsat.search.interruption import Interruption
from eqsat.target import Target

if TYPE_CHECKING:
    from eqsat.options.options import Options
    from eqsat.search.optimizer import Result


@app.command()
@takes_options
def optimize(
    source: Annotated[Path, typer.Argument(help="a .tosa file (TOSA 1.0 flatbuffer)")],
    target: TargetOption,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .tosa file to write")],
    *,
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
    """Optimize a TOSA flatbuffer from any producer; the result equals the input bit for bit.
    The result takes more cycles only to fit into the requested memory, or if Vela compiles the input incorrectly."""
    quiet()
    failing = f"{source} could not be optimized for {target}"
    with failures(failing):
        compiled_for = Target.of(target, system_config=system_config, memory_mode=memory_mode, config=config)
        check_places(output, report, csv, compiled_for)
        if source.suffix == ".pt2" or (":" in str(source) and not source.exists()):
            raise InputError(f"{source} is a PyTorch model: did you mean `eqsat compile`?")
        buffer = read_bytes(source)
        from eqsat import runs

        if save:
            runs.check_place(save)
        chosen = options()
        result = _optimized(source, buffer, compiled_for, chosen)
    if not as_json and brief:
        show_warnings(result.warnings)
    elif not as_json:  # before anything is written: who has no room for it has the figures
        title = f"{source} on {target}, Vela {result.vela}"
        show_answer(title, result, [result], chosen, result.columns(), result.bound, "before", kept=result.kept)
    job = record_of_job(compiled_for, chosen)
    figures = {"model": str(source), "target": target, **job, **_record(result), "fits": result.fits}
    with failures(failing, figures):
        write_atomically(output, result.tosa)
        if csv:
            write_csv(csv, str(source), target, result, result.columns())
        if save and (result.run is not None or not result.interrupted):
            runs.save(result, save)
        if report:
            from eqsat.report import write_page

            with working(f"the report of {source}"):
                write_page(report, result, title=source.name, rules=chosen.rules)
    if as_json:
        print_json(figures)
    elif not brief:
        show_written([f"{output} ({len(result.tosa)} bytes)", str(report or "")], {"": result})
    if not (result.searched or result.interrupted) or not figures["fits"]:
        raise typer.Exit(NOT_AS_ASKED)


def _optimized(source: Path, buffer: bytes, target: Target, options: Options) -> Result:
    """Optimizes the graph. Raises InputError, and Exit if Vela refuses the file."""
    from eqsat.ground.process import WorkerError
    from eqsat.search.optimizer import optimize_tosa
    from eqsat.tosa.flatbuffer import TosaError

    interruption = Interruption()
    try:
        with working(f"{source} for {target.accelerator}"), ends_search_first(interruption.ask):
            return optimize_tosa(buffer, target, options=options, name=str(source), interruption=interruption)
    except TosaError as e:
        raise InputError(str(e)) from e
    except WorkerError as e:
        raise fail(f"{source} cannot be compiled for {target.accelerator}: {e}; nothing was written", FAILED) from e


def _record(result: Result) -> dict[str, Any]:
    """Returns the record of a result, in which the file's own graph counts as stock's: the result without eqsat."""
    record = result.record()
    streams = record["command_stream"]
    return {
        **record,
        "cycles": {"stock": result.explicit_cycles, "eqsat": result.cycles},
        "corrected": {"stock": result.explicit_corrected, "eqsat": result.corrected},
        "calibrated": {"stock": result.explicit_calibrated, "eqsat": result.calibrated},
        "passed_over": result.passed_over,
        "kept": result.kept,
        "command_stream": {"stock": streams["explicit"], "eqsat": streams["eqsat"]},
        "stock_cycles": result.explicit_cycles,
        "stock_corrected": result.explicit_corrected,
        "stock_calibrated": result.explicit_calibrated,
        "change": result.change._asdict() if result.change else None,
        "stock_by_kind": result.explicit_by_kind,
    }
