"""What a user may call a model, checked without PyTorch, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path

from eqsat.files import InputError, Registry, split

MODELS = Registry("model", "eqsat.models", {})


def model_place(model: str) -> str:
    """The `.pt2` file, `file.py:callable` or `module:callable` that a name stands for, which may be an entry point in the group `eqsat.models`.
    Raises InputError where it is none of them or the file does not exist."""
    if model.endswith(".pt2"):
        place, file = model, model
    else:
        place = MODELS.available().get(model, model)
        file, attribute = split(place)
        if not attribute:
            raise InputError(
                f"{model!r} is neither a .pt2 file nor file.py:callable nor module:callable, nor an entry point in the group {MODELS.group}"
            )
    if file.endswith((".pt2", ".py")) and not Path(file).is_file():
        raise InputError(f"{file} does not exist")
    return place
