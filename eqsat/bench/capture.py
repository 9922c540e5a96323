"""A delegate that keeps the graphs at the hook point; its payload is stock's, compiled by Vela."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import final

from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec
from torch.export import ExportedProgram

from eqsat.executorch.arm import Tail, lower
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.vela.compile import compile_tosa


@dataclass(frozen=True, slots=True)
class Captured:
    """The graphs of a delegate.

    explicit, stock: results of the tails of the pipeline.
    payload: what Vela makes of the stock graph, or of the explicit one if there is none; empty if it refuses that.
    refused: why it does.
    binary_bytes: bytes of command stream and weights in the payload, None if Vela refuses it.
    """

    explicit: Tail
    stock: Tail
    payload: bytes
    refused: str
    binary_bytes: int | None
    vela_seconds: float


_CAPTURED: ContextVar[list[Captured]] = ContextVar("eqsat_captured")


@contextmanager
def capturing(partitioner: EthosUPartitioner) -> Iterator[list[Captured]]:
    """Within it the delegates of a partitioner are captured, in the order in which they are lowered."""
    partitioner.delegation_spec = DelegationSpec(GraphCapture.__name__, partitioner.delegation_spec.compile_specs)
    token = _CAPTURED.set([])
    try:
        yield _CAPTURED.get()
    finally:
        _CAPTURED.reset(token)


@final
class GraphCapture(BackendDetails):
    """The backend that captures; ExecuTorch finds it by its name, without registration."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        spec = EthosUCompileSpec._from_list(compile_specs)
        program = GraphCapture.copy_exported_program_for_preprocess(edge_program, compile_specs)
        hook = lower(program, TOSABackend.filter_tosa_compile_specs(spec))
        started = time.perf_counter()
        explicit, stock = Tail(hook.explicit, "", hook.explicit_seconds), hook.stock
        tosa, refused = stock.tosa or hook.explicit, ""
        try:
            with Pool(1) as pool:
                binary = compile_tosa(tosa, Target.from_compile_spec(spec), pool).footprint.payload
            payload = EthosUBackend._compile_tosa_flatbuffer(tosa, spec).processed_bytes
        except WorkerError as e:
            binary, payload, refused = None, b"", str(e)
        spent = time.perf_counter() - started
        _CAPTURED.get().append(Captured(explicit, stock, payload, refused, binary, spent))
        return PreprocessResult(processed_bytes=payload)
