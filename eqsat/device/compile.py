"""A TOSA graph's binary, by Vela in a worker process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.device.binary import Binary, Tensor
from eqsat.target import Target
from eqsat.vela import regor
from eqsat.workers.worker import Limits, Pool, Worker


def compile_binary(buffer: bytes, target: Target, via: Pool | Worker, timeout: float = 300.0) -> Binary:
    """Raises WorkerError with Vela's reason, `refused` if it said no."""
    return of_answer(via.call(regor.binary, buffer, list(target.flags), limits=Limits(timeout)))


def of_answer(answer: dict[str, Any]) -> Binary:
    """From what `eqsat.vela.regor.binary` gives."""
    return Binary(
        stream=answer["stream"],
        read_only=answer["read_only"],
        scratch=answer["scratch"],
        scratch_fast=answer["scratch_fast"],
        inputs=_tensors(answer["inputs"]),
        outputs=_tensors(answer["outputs"]),
        operators=dict(answer["operators"]),
    )


def _tensors(rows: Iterable[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tuple(shape), element, region, address) for shape, element, region, address in rows)
