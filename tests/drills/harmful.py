"""Saved programs with code in them, read in a process of its own: `python -m tests.drills.harmful DIRECTORY`.

The code leaves a file behind when it runs. Exit code 0 if every program was refused and no such file is there.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import torch

from eqsat.executorch import pt2
from eqsat.ground.files import InputError
from tests.fuzzing.formats import FORMATS

_MODEL, _INPUTS, _CONSTANTS = (
    "models/model.json",
    "data/sample_inputs/model.pt",
    "data/constants/model_constants_config.json",
)


class _Harm:
    """Runs a shell command when it is unpickled."""

    def __init__(self, trace: Path):
        self.trace = trace

    def __reduce__(self):
        return os.system, (f"touch {self.trace}",)


def _remade(source: Path, target: Path, edit: Callable[[str, bytes], bytes], more: dict[str, bytes]) -> None:
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            root, _, inner = name.partition("/")
            new.writestr(name, edit(inner, old.read(name)))
        for inner, data in more.items():
            new.writestr(f"{root}/{inner}", data)


def programs(place: Path, trace: Path) -> dict[str, Path]:
    """{where the code is: a program that has it there}."""
    FORMATS["pt2"].prepare(place)
    buffer = io.BytesIO()
    torch.save(_Harm(trace), buffer)
    opaque = json.dumps(
        {"config": {"x": {"path_name": "opaque_obj_0", "is_param": False, "use_pickle": True, "tensor_meta": None}}}
    ).encode()
    size = json.dumps({"as_expr": {"expr_str": f"__import__('os').system('touch {trace}')", "hint": None}}).encode()
    made: dict[str, tuple[Callable[[str, bytes], bytes], dict[str, bytes]]] = {
        "sample inputs": (lambda name, data: buffer.getvalue() if name == _INPUTS else data, {}),
        "constant": (
            lambda name, data: opaque if name == _CONSTANTS else data,
            {"data/constants/opaque_obj_0": pickle.dumps(_Harm(trace))},
        ),
        "target": (
            lambda name, data: (
                data.replace(b"torch.ops.aten.relu.default", b"torch.os.system") if name == _MODEL else data
            ),
            {},
        ),
        "shape": (lambda name, data: data.replace(b'{"as_int": 3}', size) if name == _MODEL else data, {}),
        "library": (lambda name, data: data, {"data/aotinductor/model/model.so": b"\x7fELF"}),
    }
    for what, (edit, more) in made.items():
        _remade(place / "small.pt2", place / f"{what}.pt2", edit, more)
    return {what: place / f"{what}.pt2" for what in made}


def main(place: Path) -> int:
    trace = place / "trace"
    seen = []
    for what, path in programs(place, trace).items():
        try:
            pt2.load(path)
            seen.append(f"{what}: loaded")
        except InputError:
            seen.append(f"{what}: refused" + (", but the code ran" if trace.exists() else ""))
        trace.unlink(missing_ok=True)
    print("; ".join(seen))
    return int(not all(s.endswith(": refused") for s in seen))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
