"""A quantized program from what a user names: a saved one, or a callable that makes the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch.export import ExportedProgram

from eqsat.executorch import pt2
from eqsat.executorch.quantize import quantize
from eqsat.files import InputError, load_callable

Progress = Callable[[str], None]


def load_program(
    model: str, spec: EthosUCompileSpec, progress: Progress = lambda _: None
) -> tuple[ExportedProgram, str]:
    """(quantized program, how it was calibrated) for a `.pt2` file or a `file.py:callable` / `module:callable`.

    The callable returns (module, example inputs) or (module, example inputs, calibration batches). Raises InputError.
    """
    if model.endswith(".pt2"):
        if not Path(model).is_file():
            raise InputError(f"{model} does not exist")
        progress("loading")
        program = pt2.load(Path(model))
        _check(program, model)
        return program, "as saved"
    if ":" not in model:
        raise InputError(f"{model!r} is neither a .pt2 file nor file.py:callable nor module:callable")
    made = load_callable(model)()
    if not isinstance(made, tuple) or len(made) not in (2, 3) or not isinstance(made[0], torch.nn.Module):
        raise InputError(
            f"{model} must return (module, example inputs) or (module, example inputs, calibration batches)"
        )
    progress("quantizing")
    try:
        program = quantize(made[0], tuple(made[1]), spec, made[2] if len(made) == 3 else None)
    except Exception as e:  # noqa: BLE001 - export and calibration run the user's module
        raise InputError(
            f"{model} cannot be exported and quantized: {type(e).__name__}: {' '.join(str(e).split())[:300]}"
        ) from e
    _check(program, model)
    return program, "given batches" if len(made) == 3 else "random batches (no calibration data was given)"


def _check(program: ExportedProgram, model: str) -> None:
    if program.range_constraints:
        raise InputError(f"{model} has dynamic shapes: export it with fixed shapes (no dynamic_shapes=)")
    targets = {str(n.target) for n in program.graph.nodes if n.op == "call_function"}
    if not any("dequantize_per" in t for t in targets):
        raise InputError(
            f"{model} is a float model: quantize it (prepare_pt2e, calibrate, convert_pt2e) and export it again"
        )
