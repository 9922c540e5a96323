"""`eqsat exec`."""

from __future__ import annotations

import os
import runpy
import sys
import traceback
from pathlib import Path
from typing import Annotated

import typer

from eqsat.cli.common import app, failures
from eqsat.cli.options import OptionsMaker, takes_options
from eqsat.ground.files import check_input


@app.command("exec", context_settings={"allow_interspersed_args": False})
@takes_options
def execute(
    command: Annotated[list[str], typer.Argument(help="a Python script (or, with -m, a module) and its arguments")],
    *,
    module: Annotated[bool, typer.Option("-m", help="run a module, as `python -m` does")] = False,
    options: OptionsMaker,
) -> None:
    """Run a Python script that lowers models with ExecuTorch, and optimize every Ethos-U delegate."""
    name, *arguments = command
    with failures(f"{name} could not be run"):
        if not module:
            check_input(Path(name))
        chosen = options()
        from eqsat.executorch.partitioner import enabled
    sys.argv = [name, *arguments]
    sys.path.insert(0, os.getcwd() if module else str(Path(name).resolve().parent))
    try:
        with enabled(chosen):
            if module:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(name, run_name="__main__")
    except Exception as e:  # noqa: BLE001 - the script's own error, printed as Python prints it
        inside = [
            f for f in traceback.extract_tb(e.__traceback__) if f.filename != __file__ and "runpy" not in f.filename
        ]
        status = "".join(traceback.format_list(inside)) + "".join(traceback.format_exception_only(e))
        print(f"Traceback (most recent call last):\n{status}", end="", file=sys.stderr)
        raise typer.Exit(1) from e
