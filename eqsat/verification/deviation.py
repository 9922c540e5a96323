"""How far a tolerant graph is from the exact one, and how far both are from the model in real numbers.

Measured on inputs that lie as the data that ranges were calibrated on: normal, with the limits of the dtype at four
standard deviations. Inputs at the limits everywhere drive a network far out of its calibrated ranges; what they show is
saturation.
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

#: Of one trial: the outputs of the exact graph, of the tolerant one, and of the exact one in real numbers, None if it
#: means nothing there.
_Outputs = tuple[list[Array], list[Array], list[Array] | None]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Per output, in steps of its quantization, over all trials: the largest and the mean absolute difference from the
    exact graph; the r.m.s. error of the exact graph (before) and of the tolerant one (after) against the exact graph in
    real numbers (`eqsat/tensor/real.py`), None if it has an operator that has no meaning there."""

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


def natural(given: Sequence[Domain], trials: int, seed: int = 0) -> list[list[Array]]:
    """Inputs of INT8 and INT16 as the module's text says; others uniform."""
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
    """Runs both graphs, of equal signatures, on the reference model over `natural` inputs; those that the exact graph
    cannot be run on say nothing. Raises WorkerError, also where no input is left."""
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
    """What both graphs give for the inputs that the exact one can be run on. Raises WorkerError."""
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
