"""`eqsat disassemble` and `eqsat run`: reads and executes what Vela emitted."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Annotated, Any

import typer

from eqsat.cli.common import BAD_INPUT, app, fail, quiet, status
from eqsat.cli.terminal import visible
from eqsat.device.core.errors import DeviceError
from eqsat.ground.files import InputError, check_output, read_bytes, write_atomically

FileArgument = Annotated[
    Path, typer.Argument(help="Vela's raw output (.npz), a delegate's payload, or a .pte with one Ethos-U delegate")
]


@app.command("disassemble")
def disassemble_command(
    file: FileArgument,
    registers: Annotated[
        bool, typer.Option("--registers", help="also print every instruction with its fields")
    ] = False,
) -> None:
    """Print the commands of a compiled model, operation by operation."""
    quiet()
    from eqsat.executorch.binaries import disassembled
    from eqsat.ground.worker import Worker

    try:
        data = read_bytes(file)
        with Worker() as worker:
            lines, outside = disassembled(data, worker, registers)
    except InputError as e:
        raise fail(str(e), BAD_INPUT) from e
    except DeviceError as e:
        raise fail(f"{file}: {e}", BAD_INPUT) from e
    _show_outside(outside)
    for line in lines:
        print(visible(line))


@app.command("run")
def run_command(
    file: FileArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .npz to write the outputs to: y0, y1, ...")],
    inputs: Annotated[
        Path | None, typer.Option(help="an .npz with the inputs, as the binary has them, in its order")
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(min=0, metavar="SEED", help="instead of inputs: random ones, written too, as x0, x1, ..."),
    ] = None,
    time_limit: Annotated[float, typer.Option(min=0.1, help="seconds")] = 600.0,
    memory_limit: Annotated[float, typer.Option(min=1, help="MiB")] = 4096.0,
) -> None:
    """Run a compiled model on a functional model of the NPU."""
    quiet()
    import numpy as np

    from eqsat.executorch.binaries import ran, ran_on_random
    from eqsat.ground.packed import UnpackError, unpack_arrays
    from eqsat.ground.process import Limits
    from eqsat.ground.worker import Worker

    try:
        check_output(output)
        data, limits = read_bytes(file), Limits(time_limit, memory_limit)
        if (inputs is None) == (random is None):
            raise InputError("give either --inputs FILE.npz or --random SEED")
        drawn: list[np.ndarray[Any, Any]] = []
        with Worker() as worker:
            if inputs is None:
                drawn, outputs, outside = ran_on_random(data, random or 0, worker, limits)
            else:
                try:
                    arrays = list(unpack_arrays(read_bytes(inputs)).values())
                except UnpackError as e:
                    raise InputError(f"{inputs}: {e}") from e
                outputs, outside = ran(data, arrays, worker, limits)
        _show_outside(outside)
        packed = io.BytesIO()
        written = {f"{name}{k}": a for name, some in (("x", drawn), ("y", outputs)) for k, a in enumerate(some)}
        np.savez(packed, **written)
        write_atomically(output, packed.getvalue())
    except InputError as e:
        raise fail(str(e), BAD_INPUT) from e
    except DeviceError as e:
        raise fail(f"{file}: {e}", BAD_INPUT) from e
    print(visible(f"wrote {output}: ") + ", ".join(f"{name} {a.dtype}{list(a.shape)}" for name, a in written.items()))


def _show_outside(operators: list[str]) -> None:
    if operators:
        status.print(f"outside the delegate: {', '.join(operators)}", highlight=False, markup=False)
