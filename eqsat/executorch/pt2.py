"""Saved ExportedPrograms (`.pt2`), read as data: no code in the file runs.

`torch.export.load` unpickles everything in the archive, of which its documentation warns, evaluates the expressions of
dynamic shapes, and calls any function of `torch` that a node names.
Here an archive that needs any of these is refused before it is loaded, and tensors are read with `weights_only`.
Source: torch 2.13, torch/export/pt2_archive/_package.py and torch/_export/serde/serialize.py.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
import torchao.quantization.pt2e.quantize_pt2e  # noqa: F401 - registers the operators of quantized programs
from torch._ops import HigherOrderOperator, OpOverload
from torch.export import ExportedProgram
from torch.export.pt2_archive import PT2ArchiveReader
from torch.export.pt2_archive._package import load_pt2
from torch.export.pt2_archive.constants import (
    CONSTANTS_DIR,
    EXTRA_DIR,
    MODELS_DIR,
    SAMPLE_INPUTS_DIR,
    TENSOR_CONSTANT_FILENAME_PREFIX,
    WEIGHTS_DIR,
)

from eqsat.ground.files import InputError, read_bytes
from eqsat.ground.packed import check_zip

#: Names of files and directories that an archive may have.
_MODEL = f"{MODELS_DIR}model.json"
_CONSTANTS = f"{CONSTANTS_DIR}model_constants_config.json"
_FILES = ("archive_format", "archive_version", "byteorder", _MODEL)
_DIRECTORIES = (".data/", WEIGHTS_DIR, CONSTANTS_DIR, SAMPLE_INPUTS_DIR, EXTRA_DIR)


def load(path: Path) -> ExportedProgram:
    """Returns a saved program. Raises InputError for a damaged file, and for one that could run code."""
    data = read_bytes(path)
    try:
        check_zip(data)
        reader = PT2ArchiveReader(io.BytesIO(data))
        reason = _unsafe(reader)
    except Exception as e:  # noqa: BLE001 - truncated archives raise many things
        raise _refuse_damaged(path, e) from e
    if reason:
        raise InputError(f"{path} {reason}")
    try:
        with _weights_only():  # not `torch.export.load`, which tries an older format on failure
            return load_pt2(io.BytesIO(data)).exported_programs["model"]
    except Exception as e:  # noqa: BLE001
        raise _refuse_damaged(path, e) from e


def _refuse_damaged(path: Path, e: Exception) -> InputError:
    return InputError(
        f"{path} cannot be loaded as an ExportedProgram ({type(e).__name__}): save it again with torch.export.save"
    )


def _unsafe(reader: PT2ArchiveReader) -> str:
    """Returns why an archive is refused, or ""."""
    for name in reader.get_file_names():
        if name not in _FILES and not name.startswith(_DIRECTORIES):
            return f"holds {name}, which is no part of an ExportedProgram: save it again with torch.export.save"
    if _CONSTANTS in reader.get_file_names():
        for name, entry in json.loads(reader.read_bytes(_CONSTANTS))["config"].items():
            if not entry["path_name"].startswith(TENSOR_CONSTANT_FILENAME_PREFIX):
                return (
                    f"holds the pickled object {name!r}, which could run code: export the model without custom objects"
                )
    text = reader.read_bytes(_MODEL)
    if b"default_factory_module" in text:
        return "has a defaultdict among its inputs or outputs, which could import code: export it with a plain dict"
    stack: list[Any] = [json.loads(text)]
    while stack:
        item = stack.pop()
        if isinstance(item, list):
            stack.extend(item)
        elif isinstance(item, dict):
            if "expr_str" in item or item.get("range_constraints"):
                return _symbolic(item.get("range_constraints", {}))
            if "target" in item and "inputs" in item and not _is_operator(item["target"]):
                return (
                    f"calls {item['target']!r}, which is no operator that PyTorch knows here: "
                    "import what registers it, or export again"
                )
            stack.extend(item.values())
    return ""


def _symbolic(ranges: Mapping[str, Any]) -> str:
    """Returns why a program with symbols in its shapes is refused; those that depend on values are u0, u1 and so on."""
    if ranges and all(name.startswith("u") for name in ranges):
        return (
            "has shapes that depend on values, as nonzero's do, whose expressions are not read from a file: "
            "give file.py:callable, or leave those operators out"
        )
    return "has dynamic shapes: export it with fixed shapes (no dynamic_shapes=)"


def _is_operator(target: str) -> bool:
    """Whether a node's target is an operator, not any other function that its name leads to."""
    parts = target.split(".")
    if parts[:2] != ["torch", "ops"]:
        return target == "_operator.getitem"
    found: Any = torch.ops
    for part in parts[2:]:
        found = getattr(found, part, None)
    return isinstance(found, (OpOverload, HigherOrderOperator))


@contextlib.contextmanager
def _weights_only() -> Iterator[None]:
    """Sets PyTorch's switch that overrides every `weights_only=False`, even inside the loader.

    No other variable is touched, as other threads may start processes meanwhile.
    """
    name = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
    before = os.environ.get(name)
    os.environ[name] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
