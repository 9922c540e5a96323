"""`eqsat optimize`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from eqsat.cli.answer import Answer, Job, answer
from eqsat.cli.common import app
from eqsat.cli.options import OptionsMaker, takes, takes_options
from eqsat.ground.files import InputError, read_bytes

if TYPE_CHECKING:
    from eqsat.cli.live import Work
    from eqsat.options.options import Options
    from eqsat.search.interruption import Interruption
    from eqsat.search.result import Result
    from eqsat.target import Target


@app.command()
@takes_options
@takes(job=Job)
def optimize(
    source: Annotated[Path, typer.Argument(help="a .tosa file (TOSA 1.0 flatbuffer)")],
    *,
    job: Callable[[], Job],
    options: OptionsMaker,
) -> None:
    """Optimize a TOSA flatbuffer from any producer; the outputs of the result equal those of the input bit for bit.
    The result takes more cycles than the input only to fit into the requested memory, or if Vela compiles the input
    incorrectly."""
    read, work = partial(_read, source), partial(_optimize, source)
    answer(str(source), "could not be optimized for", job(), options, read, work, [source])


def _read(source: Path) -> bytes:
    if source.suffix == ".pt2" or (":" in str(source) and not source.exists()):
        raise InputError(f"{source} is a PyTorch model: did you mean `eqsat compile`?")
    return read_bytes(source)


def _optimize(
    source: Path, buffer: bytes, target: Target, options: Options, interruption: Interruption, _: Work
) -> Answer:
    """Optimizes the graph. Raises TosaError, and WorkerError if Vela refuses the file."""
    from eqsat import runs
    from eqsat.search.optimizer import optimize_tosa

    result = optimize_tosa(buffer, target, options=options, name=str(source), interruption=interruption)

    def save(place: Path) -> None:
        if result.run is not None or not result.interrupted:
            runs.save(result, place)

    before, after = result.columns()
    return Answer(
        whole=result,
        results={"": result},
        content=result.tosa,
        record={"model": str(source), "target": target.accelerator, **_record(result)},
        compared={"before": before, "eqsat": after},
        bound=result.bound,
        complete=result.searched or result.interrupted,
        save=save,
        page={"what": result, "title": source.name},
        kept=result.kept,
    )


def _record(result: Result) -> dict[str, Any]:
    """Returns the record of a result, in which the file's own graph counts as stock's: the result without eqsat."""
    record = result.record()
    streams, cycles = record["command_stream"], ("cycles", "corrected", "calibrated")
    return {
        **record,
        **{name: {"stock": record[f"explicit_{name}"], "eqsat": record[name]} for name in cycles},
        **{f"stock_{name}": record[f"explicit_{name}"] for name in (*cycles, "by_kind")},
        "passed_over": result.passed_over,
        "kept": result.kept,
        "command_stream": {"stock": streams["explicit"], "eqsat": streams["eqsat"]},
        "change": result.change._asdict() if result.change else None,
    }
