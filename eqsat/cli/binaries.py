"""`eqsat disassemble` and `eqsat run`: what Vela emitted, read and executed."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from eqsat.cli.common import BAD_INPUT, app, fail, quiet, status
from eqsat.device.errors import DeviceError
from eqsat.files import InputError, check_output, write_atomically

if TYPE_CHECKING:
    from eqsat.device.binary import Binary

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
    from eqsat.device.text import disassemble

    try:
        for line in disassemble(read_file(file), registers):
            print(line)
    except (InputError, DeviceError) as e:
        raise fail(f"{file}: {e}", BAD_INPUT) from e


@app.command("run")
def run_command(
    file: FileArgument,
    inputs: Annotated[Path, typer.Option(help="an .npz with the inputs, as the binary has them, in its order")],
    output: Annotated[Path, typer.Option("--output", "-o", help="the .npz to write the outputs to: y0, y1, ...")],
) -> None:
    """Run a compiled model on a functional model of the NPU."""
    quiet()
    import numpy as np

    from eqsat.device.run import run

    try:
        check_output(output)
        binary = read_file(file)
        try:
            with np.load(inputs, allow_pickle=False) as given:
                arrays = [given[k] for k in given.files]
        except (OSError, ValueError) as e:
            raise InputError(f"{inputs} is no .npz of arrays: {e}") from e
        outputs = run(binary, arrays)
    except (InputError, DeviceError) as e:
        raise fail(f"{file}: {e}", BAD_INPUT) from e
    data = io.BytesIO()
    np.savez(data, **{f"y{k}": y for k, y in enumerate(outputs)})
    write_atomically(output, data.getvalue())
    print(f"wrote {output}: " + ", ".join(f"y{k} {y.dtype}{list(y.shape)}" for k, y in enumerate(outputs)))


def read_file(file: Path) -> Binary:
    """A compiled model in any form that commands take. Raises InputError and DeviceError."""
    from eqsat.device.binary import read_binary

    try:
        data = file.read_bytes()
    except OSError as e:
        raise InputError(str(e.strerror)) from e
    if data[4:6] != b"ET":
        return read_binary(data)
    from eqsat.executorch.pte import delegates

    found = delegates(data)
    if len(found) != 1:
        raise InputError(f"a program with {len(found)} Ethos-U delegates; one is needed")
    if found[0].outside:
        status.print(f"outside the delegate: {', '.join(dict.fromkeys(found[0].outside))}", highlight=False)
    return read_binary(found[0].payload)
