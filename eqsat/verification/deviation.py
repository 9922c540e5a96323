"""Deviations of a tolerant graph from the exact one, and of both from real numbers.

They are measured on inputs that are distributed like the data of the calibration.
These are normal, with the limits of the dtype at four standard deviations.
Inputs at the limits everywhere drive a network far out of its calibrated ranges.
They would only show saturation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor.allowed import ANY
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.real import evaluate
from eqsat.tensor.samples import Domain, domains, uniform
from eqsat.tensor.types import Array, GraphError, Type
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import run_samples

#: One trial: outputs of the exact graph, of the tolerant one, and of the exact one in real numbers.
#: The last are None if an operator has no meaning in real numbers.
_Outputs = tuple[list[Array], list[Array], list[Array] | None]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The deviation of each output over all trials, in steps of its quantization.

    largest, mean: absolute difference from the exact graph.
    error_before: r.m.s. error of the exact graph against itself in real numbers.
    error_after: r.m.s. error of the tolerant graph against the same (`eqsat/tensor/real.py`).
    Both errors are None if an operator has no meaning in real numbers.
    """

    largest: tuple[float, ...]
    mean: tuple[float, ...]
    error_before: tuple[float, ...] | None
    error_after: tuple[float, ...] | None

    @property
    def text(self) -> str:
        """The deviation of all outputs, as one line for a user."""
        line = (
            f"not bit-exact: differs from the exact graph by at most {max(self.largest):g} steps of the output's quantization, "
            f"{max(self.mean):.2f} on average"
        )
        if self.error_before is None or self.error_after is None:
            return f"{line}; the error against the model in real numbers is not known"
        before, after = (", ".join(f"{e:.2f}" for e in errors) for errors in (self.error_before, self.error_after))
        return f"{line}; r.m.s. error against the model in real numbers: {before} before, {after} after"


def natural(given: Sequence[Domain], trials: int, seed: int = 0) -> list[list[Array]]:
    """Returns inputs per trial: normal for INT8 and INT16 (see the module), uniform for others."""
    rng = np.random.default_rng(seed)

    def normal(t: Type) -> Array:
        low, high = DType.of(t.dtype).limits
        return np.clip(np.rint(rng.normal(0, (high - low) / 8, t.shape)), low, high).astype(DType.of(t.dtype).storage)

    return [
        [
            normal(d.type) if DType.of(d.type.dtype).is_activation and d.allowed == ANY else x
            for d, x in zip(given, uniform(given, rng), strict=True)
        ]
        for _ in range(trials)
    ]


def deviation(exact: TensorGraph, tolerant: TensorGraph, via: Pool | Worker, trials: int, seed: int = 0) -> Deviation:
    """Returns the deviation of two graphs of equal signatures on `natural` inputs.

    Both run on the reference model.
    Inputs that the exact graph cannot be run on are left out.
    Raises WorkerError, also if no input is left.
    """
    runs = _outputs(exact, tolerant, via, natural(domains(exact), trials, seed))
    slots = range(len(exact.outputs))
    difference = [[np.abs(a[k].astype(float) - b[k]) for b, a, _ in runs] for k in slots]
    real = [(b, a, r) for b, a, r in runs if r is not None]
    known = len(real) == len(runs)
    return Deviation(
        largest=tuple(float(max(d.max() for d in ds)) for ds in difference),
        mean=tuple(float(np.mean([d.mean() for d in ds])) for ds in difference),
        error_before=tuple(_rms([b[k] - r[k] for b, _, r in real]) for k in slots) if known else None,
        error_after=tuple(_rms([a[k] - r[k] for _, a, r in real]) for k in slots) if known else None,
    )


def _outputs(exact: TensorGraph, tolerant: TensorGraph, via: Pool | Worker, drawn: list[list[Array]]) -> list[_Outputs]:
    """Returns the outputs for all inputs that the exact graph can be run on. Raises WorkerError."""
    before = run_samples(dumps(exact), drawn, via)
    kept = [(x, b) for x, b in zip(drawn, before, strict=True) if not isinstance(b, WorkerError)]
    if not kept:
        raise next(b for b in before if isinstance(b, WorkerError))
    runs: list[_Outputs] = []
    for (inputs, b), a in zip(kept, run_samples(dumps(tolerant), [x for x, _ in kept], via), strict=True):
        if isinstance(a, WorkerError):
            raise a
        runs.append((b, a, _in_real_numbers(exact, inputs)))
    return runs


def _in_real_numbers(graph: TensorGraph, inputs: list[Array]) -> list[Array] | None:
    try:
        return evaluate(graph, inputs)
    except GraphError:
        return None


def _rms(differences: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean([np.mean(d**2) for d in differences])))
