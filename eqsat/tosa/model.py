"""The TOSA reference model, called in this process.

It may crash or hang, so this runs in a worker (`reference.py`).
"""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np

from eqsat.ground.packed import unpack_arrays
from eqsat.tensor.types import Array


def pack(arrays: Iterable[Array]) -> bytes:
    """Returns arrays as one byte string."""
    out = io.BytesIO()
    np.savez(out, **{f"x{i}": x for i, x in enumerate(arrays)})
    return out.getvalue()


def unpack(data: bytes) -> list[Array]:
    """Returns the arrays that `pack` was given."""
    arrays = unpack_arrays(data)
    return [arrays[f"x{i}"] for i in range(len(arrays))]


def reference(buffer: bytes, samples: list[bytes]) -> list[bytes | str]:
    """Returns, per sample of packed inputs, the packed outputs or why the model refuses it.

    Raises ImportError with the remedy.
    """
    try:
        import tosa_reference_model as model
    except ImportError as e:
        raise ImportError(f"{e}: pip install tosa-tools") from e

    answers: list[bytes | str] = []
    for inputs in samples:
        outputs, status = model.run(buffer, unpack(inputs), verbosity="NONE", initialize_variable_tensor_from_numpy=1)
        valid = status == model.GraphStatus.TOSA_VALID
        answers.append(pack(outputs) if valid else f"RuntimeError: the reference model answers {status}")
    return answers
