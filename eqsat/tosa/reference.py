"""The TOSA reference model, and the bit-for-bit comparison of two graphs on it, through a worker process."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor.dtypes import STORAGE
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.numerics import LIMITS
from eqsat.tensor.types import Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.workers.worker import Pool, Worker, WorkerError


def run_reference(
    buffer: bytes, inputs: Sequence[np.ndarray], via: Pool | Worker, timeout: float = 300.0
) -> list[np.ndarray]:
    """Outputs of the TOSA reference model (`tosa-tools`). Raises WorkerError."""
    packed = io.BytesIO()
    np.savez(packed, **{f"x{i}": x for i, x in enumerate(inputs)})
    _, blobs = via.request({"do": "reference"}, [buffer, packed.getvalue()], timeout)
    with np.load(io.BytesIO(blobs[0]), allow_pickle=False) as data:
        return [data[f"x{i}"] for i in range(len(data.files))]


def samples(types: Sequence[Type], trials: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Inputs to compare on: every extreme (all low, all high, alternating) first, then uniform random.

    INT32 inputs stay within 20 bits so that sums downstream do not overflow, which TOSA leaves undefined.
    """
    rng = np.random.default_rng(seed)
    out = []
    for k in range(trials):
        xs = []
        for t in types:
            storage = STORAGE[t.dtype]
            if t.dtype.startswith("FP"):
                xs.append(rng.standard_normal(t.shape).astype(storage))
                continue
            lo, hi = LIMITS[t.dtype]
            if t.dtype in ("INT32", "INT48"):
                lo, hi = -(2**20), 2**20
            if k == 0:
                x = np.full(t.shape, lo)
            elif k == 1:
                x = np.full(t.shape, hi)
            elif k == 2:
                x = np.where(np.arange(t.elements).reshape(t.shape) % 2, lo, hi)
            else:
                x = rng.integers(lo, hi, t.shape, endpoint=True)
            xs.append(x.astype(storage))
        out.append(xs)
    return out


@dataclass(frozen=True, slots=True)
class Comparison:
    """Outcome of a comparison: `equal`, the largest absolute difference seen, and what differed in words."""

    equal: bool
    max_difference: float
    reason: str = ""


def compare(
    a: TensorGraph, b: TensorGraph, via: Pool | Worker, trials: int = 6, seed: int = 0, timeout: float = 300.0
) -> Comparison:
    """Runs both graphs on the reference model over extreme and random inputs and compares every output to the bit.

    Raises WorkerError if the reference model cannot run one of them, or does not show an output (it gives none of INT48).
    """
    if a.signature() != b.signature():
        return Comparison(False, float("inf"), f"signatures differ: {a.signature()} and {b.signature()}")
    names = [[g.nodes[i].attr("name") for i in g.inputs] for g in (a, b)]
    if names[0] != names[1]:
        return Comparison(False, float("inf"), f"inputs differ: {names[0]} and {names[1]}")
    given, results = a.signature()
    if strange := {t.dtype for t in given} - STORAGE.keys():
        raise WorkerError(f"the reference model cannot be given inputs of {', '.join(sorted(strange))}")
    buffers = dumps(a), dumps(b)
    worst, where = 0.0, ""
    for inputs in samples(given, trials, seed):
        outputs = [run_reference(f, inputs, via, timeout) for f in buffers]
        for slot, (x, y, t) in enumerate(zip(*outputs, results, strict=True)):
            if not x.shape == y.shape == t.shape:
                raise WorkerError(f"the reference model does not show output {slot} of {t.dtype}")
            if not np.array_equal(x, y, equal_nan=x.dtype.kind == "f"):
                difference = float(np.abs(x.astype(np.float64) - y.astype(np.float64)).max())
                if difference >= worst:
                    worst, where = difference, f"output {slot} differs by up to {difference:g}"
    return Comparison(not where, worst, where)
