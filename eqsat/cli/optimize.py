"""`eqsat optimize`."""

from __future__ import annotations

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
from eqsat.files import InputError, check_output, read_bytes, write_atomically
from eqsat.search.interruption import Interruption
from eqsat.target import Target, TargetError


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
    save: SaveOption = None,
    report: ReportOption = None,
    options: OptionsMaker,
) -> None:
    """Optimize a TOSA flatbuffer from any producer; the result equals it bit for bit (unless numerics are tolerant) and never costs more."""
    quiet()
    try:
        check_output(output)
        check_report(report)
        check_target(target, config)
        buffer = read_bytes(source)
        from eqsat import runs

        if save:
            runs.check_place(save)
        chosen = options()
        from eqsat.search.optimizer import optimize_tosa
        from eqsat.tosa.flatbuffer import TosaError
        from eqsat.workers.worker import WorkerError

        try:
            interruption = Interruption()
            with working(f"{source} for {target}"), ends_search_first(interruption.ask):
                compiled_for = Target.of(target, system_config=system_config, memory_mode=memory_mode, config=config)
                result = optimize_tosa(
                    buffer, compiled_for, options=chosen, name=str(source), interruption=interruption
                )
        except TosaError as e:
            raise InputError(str(e)) from e
        except WorkerError as e:
            raise fail(f"{source} cannot be compiled for {target}: {e}; nothing was written", FAILED) from e
        write_atomically(output, result.tosa)
        if save and (result.run is not None or not result.interrupted):
            runs.save(result, save)
        if report:
            from eqsat.report import write_page

            with working(f"the report of {source}"):
                write_page(report, result, title=source.name, rules=chosen.rules)
    except (InputError, TargetError) as e:
        raise fail(str(e), BAD_INPUT) from e
    except typer.Exit:
        raise
    except Exception as e:  # noqa: BLE001 - said in words, also where there is no memory to import what is needed
        raise fail(f"{source} could not be optimized for {target}: {causes(e)}", FAILED) from e
    record = result.record()
    if as_json:
        before = {"stock_cycles": result.explicit_cycles, "stock_by_kind": result.explicit_by_kind}
        print_json(
            {
                "model": str(source),
                "target": target,
                "cycles": {"stock": result.explicit_cycles, "eqsat": result.cycles},
                "passed_over": result.passed_over,
                **{k: v for k, v in record.items() if k != "cycles"},
                "command_stream": {
                    "stock": record["command_stream"]["explicit"],
                    "eqsat": record["command_stream"]["eqsat"],
                },
                **before,  # a file's own graph is what there would be without eqsat
            }
        )
    else:
        show(
            Column(
                result.explicit_cycles,
                result.explicit_by_kind,
                result.explicit_footprint,
                stream=result.command_stream["explicit"],
            ),
            Column(result.cycles, result.by_kind, result.footprint, stream=result.command_stream["eqsat"]),
            result.bound,
            f"{source} on {target}, Vela {result.vela}",
            before="before",
        )
        binaries = [(result.binary_verified, result.binary_reason)]
        lines(
            result.verified,
            [result.deviation],
            [],
            binaries,
            result.coverage,
            result.seconds,
            result.warnings,
            [result.passed_over],
        )
        if chosen.objective == "pareto":
            show_points([record["points"]])
        wrote = f"wrote {output} ({len(result.tosa)} bytes)" + (f"\nwrote {report}" if report else "")
        console.print(wrote, highlight=False)
    if not (result.searched or result.interrupted):
        raise typer.Exit(STEPPED_BACK)
