"""`eqsat compile`: a .pte file from a model on disk, with figures."""

from __future__ import annotations

import logging
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from executorch.backends.arm.ethosu import EthosUCompileSpec

from eqsat import runs
from eqsat.executorch.loading import AS_GIVEN, BorderTransposes, Layout, border_transposes, layouts_to_try, load_program
from eqsat.executorch.lowering import cpu_operators, lower_with_session
from eqsat.executorch.names import INT8
from eqsat.executorch.partitioner import nothing_taken
from eqsat.executorch.session import Delegate, EqsatWarning, LeftOperator, Session
from eqsat.ground.files import InputError, OutputError, ensure_directory
from eqsat.options.options import Options
from eqsat.search.figures import Compared, GraphFigures
from eqsat.search.interruption import Interruption
from eqsat.search.result import Result
from eqsat.vela.facts import version as vela_version
from eqsat.vela.roofline import Bound

logger = logging.getLogger(__name__)

#: Keys of `CompileSummary.as_dict` with a figure of each side, and the fields of `GraphFigures`.
_OF_SIDES = {name: name for name in ("cycles", "calibrated", "by_kind", "milliseconds")} | {
    "corrected": "cycles",
    "memory": "footprint",
    "command_stream": "stream",
}
#: Attributes of `Result` that are keys with an entry per delegate.
_OF_RESULTS = (
    *("chosen", "stock_verified", "stock_proved", "binary_verified", "binary_proved", "binary_undecided"),
    *("stock_binary_verified", "stock_binary_proved", "stock_binary_undecided"),
    *("settings", "remembered", "respelled", "passed_over", "kept"),
)
#: Keys of an entry of `by_delegate` with cycles, and the attributes of `Result`; None without a result.
_CYCLES = {name: name for name in ("stock_cycles", "cycles", "stock_calibrated", "calibrated")} | {
    "stock_corrected": "stock_cycles",
    "corrected": "cycles",
}


@dataclass(slots=True)
class CompileSummary:
    """The report of `eqsat compile`.

    figures: figures of "stock" and "eqsat", over all delegates.
    results: results by the names of delegates; complete: whether every delegate has one.
    bound: the fewest cycles that the model needs.
    stepped_back: how many delegates are stock's because eqsat failed or found nothing.
    seconds: wall-clock seconds by stage.
    by_delegate: name, cycles, the chosen graph and its Vela table with origins, and the error if any.
    cpu_operators: operators outside all delegates, with their numbers.
    left: those that the partitioner left there, with its reasons.
    layout: of inputs and outputs; layouts: calibrated cycles in each that was tried.
    border_transposes: those at borders of delegates, which other layouts may do without; None if they take no cycles.
    """

    model: str
    target: str
    figures: dict[str, GraphFigures]
    results: dict[str, Result]
    complete: bool
    bound: Bound | None
    delegates: int
    stepped_back: int
    calibration: str
    seconds: dict[str, float]
    warnings: list[str]
    by_delegate: list[dict[str, Any]]
    cpu_operators: dict[str, int]
    left: list[LeftOperator]
    vela: str = field(default_factory=vela_version)
    layout: str = AS_GIVEN
    layouts: dict[str, int | None] = field(default_factory=dict)
    border_transposes: BorderTransposes | None = None

    @property
    def verified(self) -> bool:
        """Whether every delegate equals its reference to the bit."""
        return self.complete and all(r.verified for r in self.results.values())

    @property
    def proved(self) -> bool:
        """Whether every delegate equals its reference for every input."""
        return self.complete and all(r.proved for r in self.results.values())

    def columns(self) -> tuple[GraphFigures, GraphFigures]:
        """Returns the figures of stock and of eqsat."""
        return self.figures["stock"], self.figures["eqsat"]

    def compare(self) -> Compared:
        """Returns the figures that a comparison is of: all, unless only some delegates have both sides."""
        names = [d["name"] for d in self.by_delegate]
        found = Compared.of({name: self.results[name].figures if name in self.results else {} for name in names})
        if 0 < len(found.left_out) < len(names):
            return found
        return Compared(*self.columns(), [])

    def as_dict(self) -> dict[str, Any]:
        """Returns the figures as a JSON object."""
        results = list(self.results.values())
        record = asdict(replace(self, results={}))
        del record["results"], record["complete"]
        sides = record.pop("figures")
        return {
            **record,
            **{key: {side: figures[name] for side, figures in sides.items()} for key, name in _OF_SIDES.items()},
            **{name: [getattr(r, name) for r in results] for name in _OF_RESULTS},
            "binary_reasons": [r.binary_reason for r in results],
            "deviations": [None for _ in results],
            "points": [[p.record() for p in r.points] for r in results],
            "channel_steps": [[asdict(s) for s in r.channel_steps] for r in results],
            "nearest": [r.nearest and r.nearest._asdict() for r in results],
            "pte_bytes": sides["eqsat"]["pte_bytes"],
            "stock_pte_bytes": sides["stock"]["pte_bytes"],
            "verified": self.verified,
            "proved": self.proved,
            "undecided": [u for r in results for u in r.undecided],
            "error_bound": min(1.0, sum(r.error_bound for r in results)) if self.complete else 1.0,
            "coverage": min((r.coverage for r in results), default=0.0),
            "interrupted": any(r.interrupted for r in results),
        }


def compile_model(
    model: str,
    spec: EthosUCompileSpec,
    options: Options,
    interruption: Interruption | None = None,
    quantization: str = INT8,
    layout: Layout | None = None,
) -> tuple[bytes, CompileSummary]:
    """Compiles `model`, and returns (the .pte, its figures).

    quantization: one of QUANTIZATIONS, for a float module.
    interruption: the request to end the searches early.
    layout: of its inputs and outputs; None: as they are.
    Raises InputError, and whatever ExecuTorch raises.
    """
    seconds: dict[str, float] = {}
    started = time.perf_counter()
    program, calibration = load_program(model, spec, quantization, layout)
    seconds["load and quantize"] = time.perf_counter() - started
    logger.info("lowering %s", model, extra={"stage": "lowering"})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", EqsatWarning)
        edge, session = lower_with_session(program, spec, options=options, interruption=interruption)
        # before to_executorch, which puts operators of memory and out variants into the graph
        outside = cpu_operators(edge)
        lowered = time.perf_counter()
        made = edge.to_executorch()
        buffer = made.buffer
        seconds["to_executorch"] = time.perf_counter() - lowered
        if copies := cpu_operators(made).get("copy_"):  # what writes buffers back is there only now
            outside["aten.copy_"] = copies
    if not session.results and not session.stepped_back:
        raise InputError(f"no part of {model} can run on {spec.target}: {nothing_taken(program)}")
    results = session.results
    stock, ours = session.figures("stock"), replace(session.figures("eqsat"), pte_bytes=len(buffer))
    if stock.footprint and ours.footprint:
        stock = replace(stock, pte_bytes=len(buffer) + stock.footprint.payload - ours.footprint.payload)
    return buffer, CompileSummary(
        model=model,
        target=spec.target,
        figures={"stock": stock, "eqsat": ours},
        results={d.name: d.result for d in session.delegates if d.result is not None},
        complete=session.complete,
        bound=Bound.together(r.bound for r in results) if session.complete else None,
        delegates=len(results) + session.stepped_back,
        stepped_back=session.stepped_back + sum(not (r.searched or r.interrupted) for r in results),
        calibration=calibration,
        seconds={k: round(v, 3) for k, v in {**seconds, **_seconds(session)}.items()},
        warnings=[str(w.message) for w in caught if issubclass(w.category, EqsatWarning)],
        by_delegate=[_delegate(d) for d in session.delegates],
        cpu_operators=outside,
        left=session.left,
        border_transposes=border_transposes(results),
    )


def compile_in_best_layout(
    model: str,
    spec: EthosUCompileSpec,
    options: Options,
    interruption: Interruption | None = None,
    quantization: str = INT8,
) -> tuple[bytes, CompileSummary]:
    """Compiles `model` like `compile_model`, in the layout of inputs and outputs that takes the fewest cycles.

    Each rank-4 input and output is contiguous or channels_last (`other_layouts`); the .pte says which.
    Stock's figures are those of the model's own layout.
    A layout that fails, or leaves more operators to the CPU, does not count.
    Raises whatever `compile_model` raises for the model's own layout.
    """
    given = compile_model(model, spec, options, interruption, quantization)
    compiled, failed = {AS_GIVEN: given}, list[str]()
    for name, layout in layouts_to_try(model).items():
        try:
            found = compile_model(model, spec, options, interruption, quantization, layout)
        except Exception as e:  # noqa: BLE001 - ExecuTorch and Vela refuse a layout in many ways
            failed.append(f"not tried with {name}: {type(e).__name__}: {' '.join(str(e).split())[:200]}")
            continue
        if sum(found[1].cpu_operators.values()) <= sum(given[1].cpu_operators.values()) and found[1].complete:
            compiled[name] = found
    cycles = {name: summary.figures["eqsat"].calibrated for name, (_, summary) in compiled.items()}
    best = min(cycles, key=lambda name: (cycles[name] is None, cycles[name]))
    buffer, summary = compiled[best]
    figures = {**summary.figures, "stock": given[1].figures["stock"]}
    seconds = Counter[str]()
    for _, other in compiled.values():
        seconds.update(other.seconds)
    told = replace(summary, figures=figures, layout=best, layouts=cycles, seconds=dict(seconds))
    return buffer, replace(told, warnings=list(dict.fromkeys((*given[1].warnings, *failed, *summary.warnings))))


def _delegate(delegate: Delegate) -> dict[str, Any]:
    r = delegate.result
    return {
        "name": delegate.name,
        **{key: getattr(r, name, None) for key, name in _CYCLES.items()},
        "change": r.change._asdict() if r and r.change else None,
        "chosen": r.chosen if r else "stock",
        "error": delegate.error,
        "table": r.table if r else [],
        "text": str(delegate),
    }


def save_runs(results: Mapping[str, Result], place: Path, model: str) -> None:
    """Saves the runs of a model's delegates, each named by both, several in directories named by their numbers.

    Delegates whose search was interrupted before it found a graph are left out. Raises InputError.
    """
    several = len(results) > 1
    if several:
        ensure_directory(place, "--save", OutputError)
    for i, (name, result) in enumerate(results.items()):
        if result.interrupted and result.run is None:
            continue
        run = replace(result.run_or_error(), name=f"{model}, {name}")
        runs.save(run, place / str(i) if several else place)


def _seconds(session: Session) -> dict[str, float]:
    """Returns wall-clock seconds by stage of eqsat, Vela and ExecuTorch's lowering."""
    seconds: dict[str, float] = defaultdict(float)
    for result in session.results:
        for stage, spent in result.seconds.items():
            seconds[f"eqsat: {stage}"] += spent
    for stage, spent in session.seconds.items():
        seconds[stage] += spent
    total = seconds.pop("total")
    ours = sum(s for stage, s in seconds.items() if stage.startswith("eqsat: "))
    return {**seconds, "executorch lowering": total - ours}
