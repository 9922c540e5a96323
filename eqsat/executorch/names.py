"""What a user may call a model, checked without PyTorch, which takes seconds to import."""

from __future__ import annotations

from pathlib import Path

from eqsat.files import InputError


def check_model(model: str) -> None:
    """Refuses what is no `.pt2` file that exists, and no `file.py:callable` or `module:callable`. Raises InputError."""
    place = model if model.endswith(".pt2") else model.rpartition(":")[0]
    if not place:
        raise InputError(f"{model!r} is neither a .pt2 file nor file.py:callable nor module:callable")
    if place.endswith((".pt2", ".py")) and not Path(place).is_file():
        raise InputError(f"{place} does not exist")
