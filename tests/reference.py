"""The TOSA reference model on one sample."""

from __future__ import annotations

from collections.abc import Sequence

from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.tensor.types import Array
from eqsat.tosa.reference import pack, reference, unpack


def run_reference(buffer: bytes, inputs: Sequence[Array], via: Pool | Worker, timeout: float = 300.0) -> list[Array]:
    """The outputs. Raises WorkerError, `refused` if the model refuses the graph or its inputs."""
    (answer,) = via.call(reference, buffer, [pack(inputs)], limits=Limits(timeout))
    if isinstance(answer, str):
        raise WorkerError(answer, refused=True)
    return unpack(answer)
