"""Saturate, extract, verify: the whole story.

The TOSA with explicit layout is the reference for meaning. The candidates are stock ExecuTorch's graph, the explicit graph
itself and what extraction finds; Vela's total on the whole graph ranks them, and the first in that order that equals the
reference to the bit on the TOSA reference model is the answer. Whatever fails costs a candidate, never the result.
"""
from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import cost_models
from cost_models.cache import PriceCache
from eqsat import choice
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import Budget, EngineError, Extern, Rule
from eqsat.guards import violations
from eqsat.ir import GraphError, TensorGraph
from eqsat.rules import EXTERNS
from eqsat.rules.presets import PRESETS
from eqsat.target import Target
from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.tosa.vela import Estimate, WorkerError, compare, compile_tosa
from eqsat.tosa.worker import Pool
from extraction import Extraction, ExtractionError, available, extract


class OptionError(ValueError):
    """An option that nobody knows; the message names it and the known ones."""


@dataclass(frozen=True, slots=True)
class Options:
    """What a user may set. Raises OptionError for an unknown preset, extractor or cost model.

    preset: name of a set of rules (`eqsat.rules.presets`). extractor: of `extraction.available()`. cost_model: of
    `cost_models.available()` or `package.module:Class`. budget: limits of the saturation. time_limit: seconds per
    extraction. rounds: how often each extractor runs again with prices corrected by Vela's table of its last choice.
    trials: inputs on which a candidate must equal the reference. cache: file of measured prices (None: the user's cache).
    rules, externs: identities of the user's own, besides the preset's.
    """

    preset: str = "all"
    extractor: str = "portfolio"
    cost_model: str = "vela_ops"
    rules: Sequence[Rule] = ()
    externs: Sequence[Extern] = ()
    budget: Budget = Budget()
    time_limit: float = 5.0
    rounds: int = 3
    trials: int = 6
    cache: Path | None = None

    def __post_init__(self) -> None:
        for what, name, known in (("preset of rules", self.preset, PRESETS), ("extractor", self.extractor, available())):
            if name not in known:
                raise OptionError(f"no {what} is called {name!r}; there are {', '.join(sorted(known))}")
        try:
            cost_models.find(self.cost_model)
        except ValueError as e:
            raise OptionError(str(e)) from e


@dataclass(slots=True)
class Result:
    """Outcome for one graph. Cycles are Vela's totals; `stock_cycles` is None without a stock graph that Vela accepts.

    explicit: the input, for those who want to compare for themselves. chosen: "eqsat", "stock" or "explicit".
    verified: equal to the reference to the bit. stock_verified: the same of the stock graph, None if it was not compared.
    seconds: by stage.
    """

    tosa: bytes
    explicit: bytes
    chosen: str
    cycles: int
    stock_cycles: int | None
    explicit_cycles: int
    verified: bool
    stock_verified: bool | None
    by_kind: dict[str, int]
    stock_by_kind: dict[str, int]
    explicit_by_kind: dict[str, int]
    coverage: float
    opaque: dict[str, int]
    e_nodes: int
    stop: str
    candidates: int
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Candidate:
    name: str
    graph: TensorGraph
    tosa: bytes
    estimate: Estimate


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started


def optimize_tosa(explicit: bytes, target: Target, *, stock: bytes | None = None, stock_error: str = "",
                  options: Options | None = None, name: str = "the TOSA buffer") -> Result:
    """The cheapest graph equal to `explicit` for `target`, see the module's text.

    stock: the graph to beat, if there is one; stock_error says why there is none. Raises TosaError if `explicit` cannot be
    read, WorkerError if Vela or the reference model refuse it: then there is nothing to fall back to here.
    """
    options = options or Options()
    clock, warnings = _Clock(), [f"stock ExecuTorch failed on this graph: {stock_error}"] if stock_error else []
    with Pool() as pool:
        with clock.stage("import"):
            reference = loads(explicit, name)
            stock_graph = None
            if stock is not None:
                try:
                    stock_graph = loads(stock, "stock's TOSA")
                except TosaError as e:
                    warnings.append(f"stock's graph cannot be read: {e}")
        with clock.stage("vela"):
            base = _Candidate("explicit", reference, explicit, compile_tosa(explicit, target, pool))
            candidates = [base]
            stock_estimate = None
            if stock_graph is not None:
                try:
                    stock_estimate = compile_tosa(stock, target, pool)
                    candidates.append(_Candidate("stock", stock_graph, stock, stock_estimate))
                except WorkerError as e:
                    warnings.append(f"Vela refuses stock's graph: {e}")
        frozen = None
        try:
            with clock.stage("saturate"):
                frozen = saturate(reference, [*PRESETS[options.preset], *options.rules], [*EXTERNS, *options.externs], options.budget)
            candidates += search(frozen, target, pool, options, clock, warnings)
        except (EngineError, GraphError, ExtractionError) as e:
            warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")
        with clock.stage("verify"):
            best, stock_verified = _first_equal(candidates, base, pool, options, warnings)
    counts = reference.op_counts()
    opaque = {o.attr("tosa").lower(): 0 for o in reference.nodes if o.op == "opaque"}
    opaque = {k: counts.get(k, 0) for k in opaque}
    return Result(
        tosa=best.tosa, explicit=explicit, chosen=best.name, cycles=best.estimate.cycles, stock_cycles=stock_estimate.cycles if stock_estimate else None,
        explicit_cycles=base.estimate.cycles, verified=True, stock_verified=stock_verified, by_kind=best.estimate.by_kind,
        stock_by_kind=stock_estimate.by_kind if stock_estimate else {}, explicit_by_kind=base.estimate.by_kind,
        coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
        opaque=opaque, e_nodes=frozen.n_nodes if frozen else 0, stop=frozen.saturation.stop if frozen else "failed",
        candidates=len(candidates), seconds=clock.seconds, warnings=warnings)


def search(frozen: Frozen, target: Target, pool: Pool, options: Options, clock: _Clock, warnings: list[str]) -> list[_Candidate]:
    """Graphs that extraction finds, each compiled whole by Vela; its table corrects prices between rounds."""
    cache = PriceCache(options.cache)
    seen: dict[bytes, _Candidate] = {}

    def offer(found: Extraction) -> bool:
        """Compiles a choice whole; true if Vela's table shows units that cost far more than their price, which is corrected."""
        graph, origin = choices.tensor_graph(found.choice)
        buffer = dumps(graph)
        if buffer in seen:
            return False
        with clock.stage("vela"):
            seen[buffer] = _Candidate("eqsat", graph, buffer, compile_tosa(buffer, target, pool))
        return choices.corrected(graph, origin, seen[buffer].estimate.rows)

    try:
        with clock.stage("price"):
            choices = choice.build(frozen, cost_models.find(options.cost_model)(target, pool, cache))
        for method in dict.fromkeys(("dag_greedy", options.extractor)):
            found = None
            for _ in range(options.rounds):
                with clock.stage("extract"):
                    found = extract(choices.graph, method, time_limit=options.time_limit, warm_start=found)
                if not offer(found):
                    break
    except WorkerError as e:
        warnings.append(f"a candidate was dropped: {e}")
    finally:
        cache.close()
    return list(seen.values())


def _first_equal(candidates: Sequence[_Candidate], base: _Candidate, pool: Pool, options: Options,
                 warnings: list[str]) -> tuple[_Candidate, bool | None]:
    """The cheapest candidate that is legal and equals the reference, and whether stock's does (None: not compared)."""
    stock_verified = None
    for c in sorted(candidates, key=lambda c: c.estimate.cycles):
        if c is base:
            return c, stock_verified
        if reason := _unequal(c, base, pool, options):
            warnings.append(f"{'stock ExecuTorch' if c.name == 'stock' else 'a candidate'} was not used: {reason}")
            if c.name == "stock":
                stock_verified = False
            continue
        return c, True if c.name == "stock" else stock_verified
    return base, stock_verified


def _unequal(c: _Candidate, base: _Candidate, pool: Pool, options: Options) -> str:
    """Why a candidate may not replace the reference, or "" if it may."""
    if c.name != "stock" and (broken := violations(c.graph)):
        return f"it breaks a guard: {broken[0]}"
    readers = c.graph.readers()
    base_readers = base.graph.readers()
    for i, j in zip(c.graph.inputs, base.graph.inputs, strict=False):
        if not readers[i] and base_readers[j]:
            return f"input {c.graph.nodes[i].attr('name')!r} would no longer be read"
    try:
        outcome = compare(base.graph, c.graph, pool, options.trials)
    except WorkerError as e:
        return f"the reference model failed: {e}"
    return "" if outcome.equal else f"it differs from the graph before layout passes: {outcome.reason}"

