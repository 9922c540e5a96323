"""The one-line door for ExecuTorch users.

>>> # before:  edge = to_edge_transform_and_lower(ep, partitioner=[EthosUPartitioner(spec)])
>>> # after:   edge = eqsat.to_edge_transform_and_lower(ep, spec)

Inside the lowering each delegate's graph is optimized; what Vela compiles is the chosen TOSA, byte for byte.
The .pte names the stock `EthosUBackend` and runs on the stock runtime.
"""

from __future__ import annotations

import contextvars
import threading
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, final

from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec, EthosUPartitioner
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.exir import EdgeProgramManager
from executorch.exir import to_edge_transform_and_lower as stock_lowering
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.backend.partitioner import DelegationSpec
from executorch.exir.lowered_backend_module import LoweredBackendModule
from torch.export import ExportedProgram

from eqsat.fx.arm import lower
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.options import Options
from eqsat.target import Target


class EqsatWarning(UserWarning):
    """eqsat stepped back and the stock result was used; the message says why."""


@dataclass(slots=True)
class Session:
    """Options and results of one call of `to_edge_transform_and_lower`, per delegate in order. seconds: by stage."""

    options: Options
    results: list[Result] = field(default_factory=list)
    stepped_back: int = 0
    seconds: dict[str, float] = field(default_factory=dict)

    def add_seconds(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds

    @property
    def complete(self) -> bool:
        """True if there are delegates and eqsat has a result for each."""
        return bool(self.results) and not self.stepped_back

    @property
    def cycles(self) -> int | None:
        """Vela's cycles over all delegates as chosen, None if they are not complete."""
        return sum(r.cycles for r in self.results) if self.complete else None

    @property
    def stock_cycles(self) -> int | None:
        """Vela's cycles over all delegates as stock ExecuTorch lowers them, None if one of those failed too."""
        known = [r.stock_cycles for r in self.results if r.stock_cycles is not None]
        return sum(known) if self.complete and len(known) == len(self.results) else None


#: The session of the lowering that runs in this thread or task; nothing outlives it.
_SESSION: contextvars.ContextVar[Session] = contextvars.ContextVar("eqsat_session")


#: One lowering at a time: PyTorch keeps what it knows of the graph at hand in globals of the process (torch/fx/traceback.py), so that two
#: lowerings in threads break each other, eqsat or not.
_LOWERING = threading.RLock()


@final
class EqsatEthosUBackend(BackendDetails):
    """Preprocesses a delegate like `EthosUBackend`, with eqsat between the Arm passes and Vela."""

    @staticmethod
    def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
        """The payload of one delegate, from the chosen TOSA; stock's, with an EqsatWarning, where eqsat fails."""
        session = _SESSION.get()
        spec = EthosUCompileSpec._from_list(compile_specs)
        try:
            program = EqsatEthosUBackend.copy_exported_program_for_preprocess(edge_program, compile_specs)
            hook = lower(program, TOSABackend.filter_tosa_compile_specs(spec))
            session.add_seconds("eqsat: explicit tail", hook.explicit_seconds)
            result = optimize_tosa(
                hook.explicit,
                Target.from_compile_spec(spec),
                stock=hook.stock,
                stock_error=hook.stock_error,
                options=session.options,
            )
            session.results.append(result)
            for w in result.warnings:
                warnings.warn(w, EqsatWarning, stacklevel=2)
            tosa = result.tosa
        except Exception as e:  # noqa: BLE001 - never worse: any failure gives the stock result
            warnings.warn(
                f"eqsat stepped back, this delegate is stock ExecuTorch's: {type(e).__name__}: {e}",
                EqsatWarning,
                stacklevel=2,
            )
            session.stepped_back += 1
            tosa = None
        if tosa is None:
            return EthosUBackend.preprocess(edge_program, compile_specs)
        started = time.perf_counter()
        compiled = EthosUBackend._compile_tosa_flatbuffer(tosa, spec)
        session.add_seconds("vela", time.perf_counter() - started)
        store = NamedDataStore()
        for block in compiled.external_blocks:
            store.add_named_data(block.key, block.payload, alignment=block.alignment, external_tag=block.placement)
        return PreprocessResult(
            processed_bytes=compiled.processed_bytes,
            data_store_output=store.get_named_data_store_output() if compiled.external_blocks else None,
        )


def to_edge_transform_and_lower(
    program: ExportedProgram,
    compile_spec: EthosUCompileSpec,
    *,
    options: Options | None = None,
    partitioner: Sequence[Any] = (),
    **kwargs: Any,
) -> EdgeProgramManager:
    """`executorch.exir.to_edge_transform_and_lower` for an Ethos-U, with every Ethos-U delegate optimized by eqsat.

    program: a quantized ExportedProgram (PT2E: convert_pt2e, then torch.export).
    compile_spec: as for EthosUPartitioner. partitioner: further partitioners, tried after Ethos-U's.
    kwargs go to ExecuTorch unchanged. `lower_with_session` also gives the outcome per delegate.
    """
    edge, _ = lower_with_session(program, compile_spec, options=options, partitioner=partitioner, **kwargs)
    return edge


def lower_with_session(
    program: ExportedProgram,
    compile_spec: EthosUCompileSpec,
    *,
    options: Options | None = None,
    partitioner: Sequence[Any] = (),
    **kwargs: Any,
) -> tuple[EdgeProgramManager, Session]:
    """As `to_edge_transform_and_lower`, and the session with the results per delegate and the seconds per stage."""
    session = Session(options or Options())
    ours = EthosUPartitioner(compile_spec)
    ours.delegation_spec = DelegationSpec(EqsatEthosUBackend.__name__, compile_spec._to_list())
    token = _SESSION.set(session)
    started = time.perf_counter()
    try:
        with _LOWERING:
            edge = stock_lowering(program, partitioner=[ours, *partitioner], **kwargs)
    finally:
        _SESSION.reset(token)
    session.seconds["total"] = time.perf_counter() - started
    for name in edge.methods:
        for module in edge.exported_program(name).graph_module.modules():
            if isinstance(module, LoweredBackendModule) and module.backend_id == EqsatEthosUBackend.__name__:
                module._backend_id = EthosUBackend.__name__
    return edge, session
