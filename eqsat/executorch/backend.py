"""The preprocessing of an Ethos-U delegate, with eqsat between the Arm passes and Vela.

ExecuTorch writes the name by which it finds a backend into the .pte, and the stock runtime knows only "EthosUBackend".
So delegates keep Arm's name, and `preprocess` takes the place of `EthosUBackend.preprocess` (`partitioner.py`).
A delegate with a session is optimized; every other one goes on to Arm's own code unchanged.
A partitioner marks its delegates by the value of a compile spec, which knows the session (`mark`) and of which nothing
is in the .pte; `enabled` takes all delegates that are not marked.
Source: executorch 1.5, exir/backend/backend_api.py and backend_details.py.
"""

from __future__ import annotations

import logging
import re
import time
import warnings
import weakref
from collections.abc import Sequence
from copy import copy
from typing import Any

from executorch.backends.arm.arm_vela import VelaCompileResult
from executorch.backends.arm.ethosu import EthosUBackend, EthosUCompileSpec
from executorch.backends.arm.tosa.backend import TOSABackend
from executorch.exir._serialize._named_data_store import NamedDataStore
from executorch.exir.backend.backend_details import BackendDetails, PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from torch.export import ExportedProgram

from eqsat.device.binary import binary_of, read_binary
from eqsat.executorch import debug
from eqsat.executorch.arm import lower
from eqsat.executorch.logs import results
from eqsat.executorch.session import Delegate, EqsatWarning, Session
from eqsat.ground.files import LoweringError, OutputError, PluginError
from eqsat.options.decision import Container
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.search.recall import AnswerStore, StockError
from eqsat.target import Target

logger = logging.getLogger(__name__)

#: Sessions of `enabled`, the innermost last.
#: They belong to the process, not to a thread: one lowering runs at a time, in whichever thread.
ENABLED: list[Session] = []

_arm_preprocess = EthosUBackend.preprocess


class _Marked(bytes):
    """The value of a compile spec with its delegate's session; ExecuTorch finds a spec by its class's name."""

    session: weakref.ref[Session]

    def __deepcopy__(self, memo: dict[int, Any]) -> _Marked:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return bytes, (bytes(self),)


def mark(specs: Sequence[CompileSpec], session: Session) -> list[CompileSpec]:
    """Returns the compile specs of delegates that belong to `session`, which the caller keeps alive."""
    value = _Marked(specs[-1].value)
    value.session = weakref.ref(session)
    return [*specs[:-1], CompileSpec(specs[-1].key, value)]


def session_of(specs: Sequence[CompileSpec]) -> Session | None:
    """Returns the session of a delegate with these compile specs; None for stock ExecuTorch."""
    for spec in specs:
        if isinstance(spec.value, _Marked) and (session := spec.value.session()) is not None:
            return session
    return ENABLED[-1] if ENABLED else None


def preprocess(edge_program: ExportedProgram, compile_specs: list[CompileSpec]) -> PreprocessResult:
    """Replaces Arm's function for a delegate whose method is not known."""
    session = session_of(compile_specs)
    if session is None:
        return _arm_preprocess(edge_program, compile_specs)
    return _optimize(edge_program, compile_specs, session, f"delegate/{len(session.delegates)}", Container.of(None))


def preprocess_multimethod(
    cls: type[BackendDetails],
    edge_programs: dict[str, list[ExportedProgram]],
    compile_specs: dict[str, list[list[CompileSpec]]],
) -> dict[str, list[PreprocessResult]]:
    """Replaces the default of all backends, which calls `preprocess` without a name for each delegate."""
    out: dict[str, list[PreprocessResult]] = {}
    done, total = 0, sum(len(programs) for programs in edge_programs.values())
    for method, programs in edge_programs.items():
        out[method], arena = [], 0
        for program, specs in zip(programs, compile_specs[method], strict=True):
            done += 1
            session = session_of(specs)
            if session is None:
                out[method].append(cls.preprocess(program, specs))
                continue
            index = sum(d.name.rpartition("/")[0] == method for d in session.delegates)
            name = f"{method}/{index}"
            place = {"delegate": name, "number": done, "total": total, "stage": "lowering"}
            logger.info("delegate %d of %d: %s", done, total, name, extra=place)
            out[method].append(_optimize(program, specs, session, name, Container.of(total, arena)))
            arena = max(arena, session.delegates[-1].stock_sram)
            results.info("%s", session.delegates[-1])
    return out


def _optimize(
    edge_program: ExportedProgram, compile_specs: list[CompileSpec], session: Session, name: str, container: Container
) -> PreprocessResult:
    """Returns the payload of one delegate, compiled from the chosen TOSA, or stock's payload if eqsat fails."""
    spec = EthosUCompileSpec._from_list(compile_specs)
    debug.directory_of(spec)  # before the search, which takes long
    delegate = Delegate(name)
    session.delegates.append(delegate)
    try:
        result = _result(edge_program, compile_specs, spec, session, name, container)
        for w in result.warnings:
            warnings.warn(f"{name}: {w}", EqsatWarning, stacklevel=2)
        compiled = _compile(result, spec, session)
        delegate.result = result
    except (PluginError, OutputError):
        raise
    except Exception as e:  # noqa: BLE001 - never worse: after any failure the result is stock's
        logger.debug("%s: eqsat fell back", name, exc_info=True)
        payload = _stocks(edge_program, compile_specs, name)
        delegate.error = innermost(e)
        warnings.warn(
            f"{name}: eqsat fell back, this delegate is stock ExecuTorch's: {delegate.error}",
            EqsatWarning,
            stacklevel=2,
        )
        return payload
    store = NamedDataStore()
    for block in compiled.external_blocks:
        store.add_named_data(block.key, block.payload, alignment=block.alignment, external_tag=block.placement)
    return PreprocessResult(
        processed_bytes=compiled.processed_bytes,
        data_store_output=store.get_named_data_store_output() if compiled.external_blocks else None,
        debug_handle_map=_debug_handles(result),
    )


def _stocks(edge_program: ExportedProgram, compile_specs: list[CompileSpec], name: str) -> PreprocessResult:
    """Returns stock's payload of a delegate that eqsat failed on. Raises LoweringError if stock fails, too."""
    try:
        return _arm_preprocess(edge_program, compile_specs)
    except Exception as e:
        raise LoweringError(f"{name}: neither eqsat nor stock ExecuTorch can lower it: {innermost(e)}") from e


def innermost(error: BaseException) -> str:
    """Returns the innermost cause of an exception in one line, with the operator at which a pass failed."""
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    text = str(error).strip()
    operator = re.search(r"While executing %\S+ : .*?\[target=([\w.]+?)(?:\.default)?\]", text)
    at = f" (at {operator[1].rpartition('_ops.')[2]})" if operator else ""
    return f"{type(error).__name__}: {' '.join(text.partition(chr(10) * 2)[0].split())}{at}"


class ShippedError(Exception):
    """The delegate that ExecuTorch compiles differs from the one that was measured and run."""


def _compile(result: Result, spec: EthosUCompileSpec, session: Session) -> VelaCompileResult:
    """Compiles the chosen graph by ExecuTorch's own call of Vela.

    A result that was run and found to be wrong may differ, as Vela may have read what it did not write.
    """
    started = time.perf_counter()
    tuned = copy(spec)
    tuned.compiler_flags = [*spec.compiler_flags, *result.settings]
    compiled = EthosUBackend._compile_tosa_flatbuffer(result.tosa, tuned)
    session.seconds["vela"] += time.perf_counter() - started
    external = {block.key: block.payload for block in compiled.external_blocks}
    differing = read_binary(compiled.processed_bytes, external).differences(binary_of(result.raw))
    if differing and result.binary_verified is not False:
        raise ShippedError(f"the {' and '.join(differing)} of the delegate are not those that were measured and run")
    return compiled


def _debug_handles(result: Result) -> dict[str, tuple[int, ...]]:
    """Returns {result of a TOSA operator: debug handles of PyTorch operators} for an ETRecord."""
    handles = {
        name: tuple(o.handle for o in origins if o.handle is not None) for name, origins in result.origins.items()
    }
    return {name: found for name, found in handles.items() if found}


def _result(
    edge_program: ExportedProgram,
    compile_specs: list[CompileSpec],
    spec: EthosUCompileSpec,
    session: Session,
    name: str,
    container: Container,
) -> Result:
    """Optimizes one delegate."""
    options = session.options
    hook = lower(
        EthosUBackend.copy_exported_program_for_preprocess(edge_program, compile_specs),
        TOSABackend.filter_tosa_compile_specs(spec),
    )
    session.seconds["eqsat: explicit tail"] += hook.explicit_seconds

    def stock() -> bytes:
        if hook.stock.tosa is None:
            raise StockError(hook.stock.error)
        return hook.stock.tosa

    result = optimize_tosa(
        hook.explicit,
        Target.from_compile_spec(spec),
        stock=stock,
        options=options,
        name=name,
        container=container,
        interruption=session.interruption,
        with_settings=True,
        store=AnswerStore(options.cache) if options.remember else None,
    )
    debug.write(session, name, result.tosa, hook.details, spec)
    return result
