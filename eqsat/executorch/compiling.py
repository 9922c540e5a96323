"""`eqsat compile`: a model on disk to a .pte file, with the figures on the way."""

from __future__ import annotations

import logging
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat import runs
from eqsat.executorch.bookkeeping import less_bookkeeping
from eqsat.executorch.loading import load_program
from eqsat.executorch.lowering import cpu_operators, lower_with_session
from eqsat.executorch.names import INT8
from eqsat.executorch.session import Delegate, EqsatWarning, Session
from eqsat.files import InputError, OutputError
from eqsat.options.options import Options
from eqsat.search.figures import GraphFigures
from eqsat.search.interruption import Interruption
from eqsat.search.result import Result
from eqsat.vela.facts import version as vela_version
from eqsat.vela.roofline import Bound
from eqsat.verification.deviation import Deviation

_Numeric = TypeVar("_Numeric", int, float)


logger = logging.getLogger(__name__)

#: Keys of `as_dict` that have a figure of each side.
_TOLD = {name: name for name in ("cycles", "corrected", "by_kind")} | {
    "memory": "footprint",
    "command_stream": "stream",
}


@dataclass(slots=True)
class CompileSummary:
    """What `eqsat compile` reports: the figures of "stock" and "eqsat" by the version `vela` of Vela over all delegates, cycles that the model needs at least, whether every delegate
    equals its reference to the bit, whether that is proved for every input and where not, the probability that a proof is wrong, or by how much a tolerant one does not, seconds by stage; by_delegate: name, cycles, the graph that was
    chosen, Vela's table of it with the origins of its operators, and the error where eqsat stepped back; cpu_operators: those that no delegate has, with their number;
    interrupted: a search was ended before it was done; results: by the names of delegates, not in `as_dict`."""

    model: str
    target: str
    figures: dict[str, GraphFigures]
    bound: Bound | None
    verified: bool
    proved: bool
    undecided: list[str]
    error_bound: float
    deviations: list[Deviation | None]
    chosen: list[str]
    stock_verified: list[bool | None]
    stock_proved: list[bool | None]
    binary_verified: list[bool | None]
    binary_reasons: list[str]
    stock_binary_verified: list[bool | None]
    coverage: float
    delegates: int
    stepped_back: int
    calibration: str
    seconds: dict[str, float]
    points: list[list[dict[str, Any]]] = field(default_factory=list)
    passed_over: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    vela: str = field(default_factory=vela_version)
    by_delegate: list[dict[str, Any]] = field(default_factory=list)
    cpu_operators: dict[str, int] = field(default_factory=dict)
    interrupted: bool = False
    results: dict[str, Result] = field(default_factory=dict, repr=False)

    def as_dict(self) -> dict[str, Any]:
        record = asdict(replace(self, results={}))
        del record["results"]
        sides = record.pop("figures")
        told = {key: {side: figures[name] for side, figures in sides.items()} for key, name in _TOLD.items()}
        sizes = {"pte_bytes": sides["eqsat"]["pte_bytes"], "stock_pte_bytes": sides["stock"]["pte_bytes"]}
        return record | told | sizes


def compile_model(
    model: str,
    spec: EthosUCompileSpec,
    options: Options,
    interruption: Interruption | None = None,
    quantization: str = INT8,
) -> tuple[bytes, CompileSummary]:
    """(the .pte, figures) of `model`, a float module of which is quantized in one of QUANTIZATIONS. interruption: what ends the searches early. Raises
    InputError; others come from ExecuTorch."""
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    program, calibration = load_program(model, spec, quantization)
    seconds["load and quantize"] = time.perf_counter() - started
    logger.info("lowering %s", model, extra={"stage": "lowering"})
    with warnings.catch_warnings(record=True) as caught, less_bookkeeping():
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", EqsatWarning)
        edge, session = lower_with_session(program, spec, options=options, interruption=interruption)
        outside = cpu_operators(edge)  # before to_executorch, which puts memory and out variants into the graph
        lowered = time.perf_counter()
        buffer = edge.to_executorch().buffer
        seconds["to_executorch"] = time.perf_counter() - lowered
    if not session.results and not session.stepped_back:
        raise InputError(f"no part of {model} can run on {spec.target}: the partitioner found no delegate")
    results = session.results
    stock, ours = session.figures("stock"), replace(session.figures("eqsat"), pte_bytes=len(buffer))
    if stock.footprint and ours.footprint:
        stock = replace(stock, pte_bytes=len(buffer) + stock.footprint.payload - ours.footprint.payload)
    return buffer, CompileSummary(
        model=model,
        target=spec.target,
        figures={"stock": stock, "eqsat": ours},
        bound=Bound.together(r.bound for r in results) if session.complete else None,
        verified=session.complete and all(r.verified for r in results),
        proved=session.complete and all(r.proved for r in results),
        undecided=[u for r in results for u in r.undecided],
        error_bound=min(1.0, sum(r.error_bound for r in results)) if session.complete else 1.0,
        deviations=[r.deviation for r in results],
        chosen=[r.chosen for r in results],
        stock_verified=[r.stock_verified for r in results],
        stock_proved=[r.stock_proved for r in results],
        binary_verified=[r.binary_verified for r in results],
        binary_reasons=[r.binary_reason for r in results],
        stock_binary_verified=[r.stock_binary_verified for r in results],
        coverage=min((r.coverage for r in results), default=0.0),
        delegates=len(results) + session.stepped_back,
        stepped_back=session.stepped_back + sum(not (r.searched or r.interrupted) for r in results),
        calibration=calibration,
        seconds={k: round(v, 3) for k, v in {**seconds, **_seconds(session)}.items()},
        points=[[p.record() for p in r.points] for r in results],
        passed_over=[r.passed_over for r in results],
        kept=[r.kept for r in results],
        warnings=[str(w.message) for w in caught if issubclass(w.category, EqsatWarning)],
        by_delegate=[_delegate(d) for d in session.delegates],
        cpu_operators=outside,
        interrupted=any(r.interrupted for r in results),
        results={d.name: d.result for d in session.delegates if d.result is not None},
    )


def _delegate(delegate: Delegate) -> dict[str, Any]:
    r = delegate.result
    return {
        "name": delegate.name,
        "stock_cycles": r.stock_cycles if r else None,
        "cycles": r.cycles if r else None,
        "stock_corrected": r.stock_corrected if r else None,
        "corrected": r.corrected if r else None,
        "chosen": r.chosen if r else "stock",
        "error": delegate.error,
        "table": r.table if r else [],
        "text": str(delegate),
    }


def save_runs(results: Sequence[Result], place: Path) -> None:
    """Saves the runs of delegates; of several each in a directory of its number; none where the search was interrupted before it found
    a graph. Raises InputError."""
    several = len(results) > 1
    if several:
        try:
            place.mkdir(exist_ok=True)
        except OSError as e:
            raise OutputError(f"cannot make {place}: {e.strerror or e}; choose a writable place with --save") from e
    for i, result in enumerate(results):
        if result.interrupted and result.run is None:
            continue
        runs.save(result, place / str(i) if several else place)


def _seconds(session: Session) -> dict[str, float]:
    """Seconds by stage of eqsat and of Vela, and what ExecuTorch's lowering took besides."""
    stages = [{f"eqsat: {k}": v for k, v in r.seconds.items()} for r in session.results]
    seconds = _total([*stages, {k: v for k, v in session.seconds.items() if k != "total"}])
    ours = sum(s for stage, s in seconds.items() if stage.startswith("eqsat: "))
    return {**seconds, "executorch lowering": session.seconds["total"] - ours}


def _total(tables: Iterable[Mapping[str, _Numeric]]) -> dict[str, _Numeric]:
    """Sums by key."""
    out: dict[str, _Numeric] = {}
    for table in tables:
        for key, value in table.items():
            out[key] = out[key] + value if key in out else value
    return out
