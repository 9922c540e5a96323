"""`eqsat disassemble` and `eqsat run`: print and run the binaries that Vela emitted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from eqsat.cli.common import app, console, quiet, status
from eqsat.ground.files import InputError, check_outputs, read_bytes, write_atomically

FileArgument = Annotated[
    Path, typer.Argument(help="Vela's raw output (.npz), a delegate's payload, a .pte, or a bundled program (.bpte)")
]
DelegateOption = Annotated[
    str, typer.Option(metavar="NAME", help="name of the delegate if a .pte has several, such as forward/1")
]
DataOption = Annotated[
    list[Path] | None,
    typer.Option(
        "--data", metavar="FILE.ptd", help="a .ptd file with data that the delegate keeps outside; may be repeated"
    ),
]


@app.command("disassemble")
def disassemble_command(
    file: FileArgument,
    registers: Annotated[
        bool, typer.Option("--registers", help="also print every instruction with its fields")
    ] = False,
    delegate: DelegateOption = "",
    external: DataOption = None,
) -> None:
    """Print the commands of a compiled model, operation by operation."""
    quiet()
    from eqsat.executorch.binaries import disassemble_model
    from eqsat.ground.worker import Worker

    data, files = read_bytes(file), {str(path): read_bytes(path) for path in external or ()}
    with _of(file, InputError), Worker() as worker:
        lines, outside = disassemble_model(data, worker, registers, delegate, files)
    _show_outside(outside)
    for line in lines:
        console.write(line)


@app.command("run")
def run_command(
    file: FileArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="the .npz file for the outputs, by name")],
    inputs: Annotated[
        Path | None,
        typer.Option(help="an .npz file with the inputs, by name or in the order of the binary; floats are quantized"),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="SEED", help="use random inputs with this seed instead of --inputs, and write them, too"
        ),
    ] = None,
    delegate: DelegateOption = "",
    external: DataOption = None,
    dequantize: Annotated[
        bool, typer.Option("--dequantize", help="write floats for the outputs that the program dequantizes")
    ] = False,
    time_limit: Annotated[float, typer.Option(min=0.1, metavar="SECONDS", help="time limit in seconds")] = 600.0,
    memory_limit: Annotated[float, typer.Option(min=1, metavar="MIB", help="memory limit in MiB")] = 4096.0,
) -> None:
    """Run a compiled model on a functional model of the NPU."""
    quiet()
    from eqsat.executorch.binaries import run_model
    from eqsat.executorch.pte import is_bundled
    from eqsat.ground.packed import UnpackError, pack_arrays, unpack_arrays
    from eqsat.ground.process import Limits
    from eqsat.ground.worker import Worker

    check_outputs({"-o": output}, [file, *(external or ()), *([inputs] if inputs else [])])
    data, limits = read_bytes(file), Limits(time_limit, memory_limit)
    files = {str(path): read_bytes(path) for path in external or ()}
    if (inputs is None) == (random is None) and (inputs or not is_bundled(data)):
        raise InputError("give either --inputs FILE.npz or --random SEED")
    given: Any = random
    if inputs is not None:
        with _of(inputs, UnpackError):
            given = unpack_arrays(read_bytes(inputs))
    with _of(file, InputError), Worker() as worker:
        found = run_model(data, given, worker, limits, delegate, files)
    _show_outside(found.outside)
    if dequantize and not any(v.quantization for v in found.outputs.values()):
        raise InputError(f"{file}: no scale of an output is known, so that --dequantize has nothing to do")
    written = {n: v.data for n, v in found.inputs.items()} if inputs is None else {}
    written |= {n: v.real if dequantize else v.data for n, v in found.outputs.items()}
    write_atomically(output, pack_arrays(written))
    for what, values in (("inputs", found.inputs), ("outputs", found.outputs)):
        console.write(f"{what}: {', '.join(f'{n} {v}' for n, v in values.items()) or 'none'}")
    for name, wanted in found.expected.items():
        far, unit = found.outputs[name].distance(wanted)
        console.write(f"compared with the test case: {name} differs by at most {far:.3g}{unit}")
    console.write(f"wrote {output}: " + ", ".join(f"{n} {a.dtype}{list(a.shape)}" for n, a in written.items()))


@contextmanager
def _of(file: Path, error: type[Exception]) -> Iterator[None]:
    """Within it an error of this type becomes an InputError that names the file."""
    try:
        yield
    except error as e:
        raise InputError(f"{file}: {e}") from e


def _show_outside(operators: list[str]) -> None:
    if operators:
        status.say(f"outside the delegate: {', '.join(operators)}")
