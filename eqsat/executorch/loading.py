"""Quantized programs by the names that users give: saved ones, or callables that make the model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch
from executorch.backends.arm.ethosu import EthosUCompileSpec
from torch.export import ExportedProgram

from eqsat.executorch import pt2
from eqsat.executorch.layouts import Layout, describe, in_layout, other_layouts
from eqsat.executorch.names import INT8, check_quantization, model_place
from eqsat.executorch.partitioner import why_not
from eqsat.executorch.quantize import quantize
from eqsat.ground.files import InputError, PluginError
from eqsat.ground.registry import load

logger = logging.getLogger(__name__)


def load_program(
    model: str, spec: EthosUCompileSpec, quantization: str = INT8, layout: Layout | None = None
) -> tuple[ExportedProgram, str]:
    """Returns (quantized program, how it was calibrated) of a model.

    model: a `.pt2` file, a `file.py:callable`, a `module:callable` or an entry point.
    The callable returns (module, example inputs) or (module, example inputs, calibration batches).
    quantization: one of QUANTIZATIONS, for the module of a callable.
    layout: of its inputs and outputs; None: as they are.
    Raises InputError.
    """
    check_quantization(quantization, model)
    place = model_place(model)
    if model.endswith(".pt2"):
        logger.info("loading %s", model, extra={"stage": "loading"})
        program, calibration = pt2.load(Path(place)), "as saved"
    else:
        module, inputs, batches = load_module(model)
        if layout is not None:
            module, inputs = in_layout(module, inputs, layout)
        logger.info("quantizing %s", model, extra={"stage": "quantizing"})
        try:
            program = quantize(module, inputs, spec, batches, quantization)
        except Exception as e:  # noqa: BLE001 - export and calibration run the user's module
            raise InputError(
                f"{model} cannot be exported and quantized: {type(e).__name__}: {' '.join(str(e).split())[:300]}"
            ) from e
        calibration = "given batches" if batches else "random batches (no calibration data was given)"
    if reason := why_not(program):
        raise InputError(f"{model} cannot go to an Ethos-U: {reason}")
    return program, calibration


def load_module(
    model: str,
) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], Sequence[tuple[torch.Tensor, ...]] | None]:
    """Returns (module, example inputs, calibration batches if any) of a callable. Raises InputError, PluginError."""
    place = model_place(model)
    make = load(place)
    if not callable(make):
        raise InputError(f"{place} is no callable: it must return (module, example inputs)")
    try:
        made = make()
    except (Exception, SystemExit) as e:  # noqa: BLE001 - a user's function can raise anything
        raise PluginError(f"{model} failed: {type(e).__name__}: {' '.join(str(e).split())}") from e
    if (
        not isinstance(made, tuple)
        or len(made) not in (2, 3)
        or not isinstance(made[0], torch.nn.Module)
        or not isinstance(made[1], tuple | list)
    ):
        raise InputError(
            f"{model} must return (module, example inputs) or (module, example inputs, calibration batches), "
            "where example inputs are a tuple"
        )
    return made[0], tuple(made[1]), made[2] if len(made) == 3 else None


def layouts_to_try(model: str) -> dict[str, Layout]:
    """Returns the layouts of inputs and outputs beside a model's own, by name; none for a file. Raises InputError."""
    if model.endswith((".pt2", ".tosa")):
        return {}
    module, inputs, _ = load_module(model)
    return {describe(layout): layout for layout in other_layouts(module.eval(), inputs)}
