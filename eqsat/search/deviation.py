"""How far a tolerant graph is from the exact one, and how far both are from the model in real numbers.

Measured on inputs that lie as the data that ranges were calibrated on: normal, with the limits of the dtype at four standard
deviations. Inputs at the limits everywhere drive a network far out of its calibrated ranges; what they show is saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.tensor import numerics_float
from eqsat.tensor.dtypes import STORAGE
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.numerics import LIMITS
from eqsat.tensor.types import GraphError, Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import run_reference, samples
from eqsat.workers.worker import Pool, Worker

#: How many extreme inputs `samples` gives first.
_EXTREMES = 3


@dataclass(frozen=True, slots=True)
class Deviation:
    """Per output, in steps of its quantization, over all trials: the largest and the mean absolute difference from the exact
    graph; the r.m.s. error of the exact graph (before) and of the tolerant one (after) against the exact graph in real numbers
    (`eqsat/tensor/numerics_float.py`), None if it has an operator that has no meaning there."""

    largest: tuple[float, ...]
    mean: tuple[float, ...]
    error_before: tuple[float, ...] | None
    error_after: tuple[float, ...] | None

    @property
    def text(self) -> str:
        """One line for a user, over all outputs."""
        line = (
            f"not bit-exact: differs from the exact graph by at most {max(self.largest):g} steps of the output's quantization, "
            f"{max(self.mean):.2f} on average"
        )
        if self.error_before is None or self.error_after is None:
            return f"{line}; the error against the model in real numbers is not known"
        before, after = (", ".join(f"{e:.2f}" for e in errors) for errors in (self.error_before, self.error_after))
        return f"{line}; r.m.s. error against the model in real numbers: {before} before, {after} after"


def natural(types: Sequence[Type], trials: int, seed: int = 0) -> list[list[np.ndarray]]:
    """Inputs of INT8 and INT16 as the module's text says; others uniform."""
    rng = np.random.default_rng(seed)
    uniform = samples(types, _EXTREMES + trials, seed)[_EXTREMES:]

    def normal(t: Type) -> np.ndarray:
        low, high = LIMITS[t.dtype]
        return np.clip(np.rint(rng.normal(0, (high - low) / 8, t.shape)), low, high).astype(STORAGE[t.dtype])

    return [
        [normal(t) if t.dtype in ("INT8", "INT16") else x for t, x in zip(types, xs, strict=True)] for xs in uniform
    ]


def deviation(exact: TensorGraph, tolerant: TensorGraph, via: Pool | Worker, trials: int, seed: int = 0) -> Deviation:
    """Runs both graphs, of equal signatures, on the reference model over `natural` inputs. Raises WorkerError."""
    runs: list[tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray] | None]] = []
    buffers = dumps(exact), dumps(tolerant)
    for inputs in natural(exact.signature()[0], trials, seed):
        try:
            real = numerics_float.evaluate(exact, inputs)
        except GraphError:
            real = None
        before, after = (run_reference(b, inputs, via) for b in buffers)
        runs.append((before, after, real))
    slots = range(len(exact.outputs))
    difference = [[np.abs(a[k].astype(float) - b[k]) for b, a, _ in runs] for k in slots]
    known = all(real is not None for _, _, real in runs)
    return Deviation(
        largest=tuple(float(max(d.max() for d in ds)) for ds in difference),
        mean=tuple(float(np.mean([d.mean() for d in ds])) for ds in difference),
        error_before=tuple(_rms([b[k] - r[k] for b, _, r in runs]) for k in slots) if known else None,
        error_after=tuple(_rms([a[k] - r[k] for _, a, r in runs]) for k in slots) if known else None,
    )


def _rms(differences: Sequence[np.ndarray]) -> float:
    return float(np.sqrt(np.mean([np.mean(d**2) for d in differences])))
