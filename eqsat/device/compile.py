"""A TOSA graph's binary, by Vela in a worker process."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from eqsat.device.binary import Binary, Tensor
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa
from eqsat.vela.regor import RawOutput


def compile_binary(buffer: bytes, target: Target, via: Pool | Worker) -> Binary:
    """Compiles a graph.

    Raises WorkerError with Vela's reason; `refused` is set if Vela rejected the graph.
    """
    return binary_of(raw_of(compile_tosa(buffer, target, via)))


def raw_of(estimate: Estimate) -> RawOutput:
    """Returns the raw output of a compiled TOSA graph."""
    assert estimate.raw is not None, "what Vela compiled is not TOSA"
    return estimate.raw


def binary_of(raw: RawOutput) -> Binary:
    """Returns the binary of Vela's raw output."""
    return Binary(
        stream=raw["stream"],
        read_only=raw["read_only"],
        scratch=raw["scratch"],
        scratch_fast=raw["scratch_fast"],
        inputs=_tensors_of(raw["inputs"]),
        outputs=_tensors_of(raw["outputs"]),
        operators=dict(raw["operators"]),
    )


def _tensors_of(rows: Iterable[Any]) -> tuple[Tensor, ...]:
    return tuple(Tensor(tuple(shape), element, region, address) for shape, element, region, address in rows)
