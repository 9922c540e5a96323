"""The names of models, checked without PyTorch or NetworkX, which take seconds to import."""

from __future__ import annotations

from pathlib import Path

from eqsat.ground.files import InputError, check_input
from eqsat.ground.registry import Registry

#: Quantizations of a float module: activations and weights of INT8, or activations of INT16 with weights of INT8.
INT8, A16W8 = "int8", "a16w8"
#: Names of all quantizations.
QUANTIZATIONS = (INT8, A16W8)
#: What `--layouts` may do with the layouts of inputs and outputs.
KEEP, AUTO = "keep", "auto"
#: The models that installed packages offer.
MODELS = Registry("model", "eqsat.models", {})


def check_quantization(quantization: str, model: str) -> None:
    """Raises InputError for an unknown quantization, and for A16W8 of a model that is quantized already."""
    if quantization not in QUANTIZATIONS:
        raise InputError(f"no quantization is called {quantization!r}: use {', '.join(QUANTIZATIONS)}")
    if quantization != INT8 and model.endswith((".pt2", ".tosa")):
        raise InputError(f"{model} is quantized already: {quantization} is for models that are Python")


def check_layouts(layouts: str, place: str) -> None:
    """Raises InputError for anything but KEEP and AUTO, and for AUTO with a saved program, whose layouts are fixed."""
    if layouts not in (KEEP, AUTO):
        raise InputError(f"--layouts is {KEEP} or {AUTO}, not {layouts!r}")
    if layouts == AUTO and place.endswith(".pt2"):
        raise InputError(
            f"the layouts of {place} are fixed: export it with x.to(memory_format=torch.channels_last), "
            "or give a callable that makes the model"
        )


def model_file(model: str) -> str:
    """Returns the file, or else the module, in a model's name; empty if the name has neither."""
    return model if model.endswith(".pt2") else model.rpartition(":")[0]


def model_place(model: str) -> str:
    """Returns the `.pt2` file, `file.py:callable` or `module:callable` of a name, which may be an entry point.

    Raises InputError if it is none of them, or if the file does not exist.
    """
    if model.endswith(".tosa"):
        raise InputError(f"{model} is a TOSA file: did you mean `eqsat optimize`?")
    file = model_file(model)
    if file.endswith((".pt2", ".py")):
        check_input(Path(file))
    if file:
        return model
    place = MODELS.available().get(model)
    if place is None:
        raise InputError(
            f"{model!r} is neither a .pt2 file nor file.py:callable nor module:callable, "
            f"nor an entry point in the group {MODELS.group}"
        )
    return place
