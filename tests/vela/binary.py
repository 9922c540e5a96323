"""What Vela's own command writes for the runtime to read."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from eqsat.target import Target


def input_shapes(buffer: bytes, target: Target) -> list[tuple[int, ...]]:
    """Shapes of the inputs in Vela's binary, six dims each."""
    with tempfile.TemporaryDirectory() as d:
        place = Path(d)
        (place / "graph.tosa").write_bytes(buffer)
        command = [Path(sys.executable).parent / "vela", *target.flags, f"--output-dir={d}", f"{d}/graph.tosa"]
        subprocess.run(command, check=True, capture_output=True)
        with np.load(place / "graph_vela.npz", allow_pickle=False) as data:
            return [tuple(map(int, shape)) for shape in data["input_shape"]]


def six(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape as Vela's binary has it."""
    return (1,) * (6 - len(shape)) + shape
