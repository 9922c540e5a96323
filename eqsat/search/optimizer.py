"""Saturate, extract, verify: the whole story.

The TOSA with explicit layout is the reference for meaning. The candidates are stock ExecuTorch's graph, the explicit graph
itself and what extraction finds; Vela's total on the whole graph ranks them, and the first in that order that equals the
reference to the bit on the TOSA reference model is the answer. Whatever fails costs a candidate, never the result; also the explicit
graph itself, which Vela may refuse (a TRANSPOSE that U55 has no room for).

With tolerant numerics a second e-graph also has rules that save roundings (`eqsat/rules/tolerant.py`). What is found there competes with
the exact candidates, and may differ from the reference within `Options.tolerance`; `Result.deviation` tells by how much it does.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import cost_models
from cost_models.cache import PriceCache
from cost_models.layout import Layout
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import Extern, Rule
from eqsat.files import InputError
from eqsat.rules import tolerant
from eqsat.runs import Run
from eqsat.search import choice
from eqsat.search.deviation import Deviation
from eqsat.search.options import Options
from eqsat.search.regions import computed_classes
from eqsat.search.unpriced import unpriced
from eqsat.search.verification import Compiled, first_equal
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, dumps, loads
from eqsat.vela.compile import compile_tosa
from eqsat.workers.worker import Pool, WorkerError
from extraction import Extraction, Infeasible, check, extract

if TYPE_CHECKING:
    from eqsat.explain import Explanation, Verdict


#: What warnings call the graphs that are given.
_GIVEN = {"explicit": "the explicit graph", "stock": "stock's graph"}


@dataclass(frozen=True, slots=True)
class Extracted:
    """One choice that was compiled whole: who found it in which round (from the second on, prices are corrected), its cost in cycles
    as the cost model sees it, Vela's cycles, and the proved relative gap of the extraction (None: no bound)."""

    extractor: str
    round: int
    predicted: float
    cycles: int
    gap: float | None


@dataclass(slots=True)
class Result:
    """Outcome for one graph. Cycles are Vela's totals; those of stock's and of the explicit graph are None where Vela refuses it, or there is none.

    explicit: the input, for those who want to compare for themselves. chosen: "eqsat", "stock" or "explicit".
    verified: equal to the reference to the bit. stock_verified: the same of the stock graph, None if it was not compared.
    deviation: of a tolerant result that is not equal to the bit. seconds: by stage. searched: extraction gave at least one graph that Vela
    accepts; if not, `warnings` say why, and the command line ends with exit code 4. run: all that was known, to save and to explain; None
    if not `searched`.
    """

    tosa: bytes
    explicit: bytes
    chosen: str
    cycles: int
    stock_cycles: int | None
    explicit_cycles: int | None
    verified: bool
    deviation: Deviation | None
    stock_verified: bool | None
    by_kind: dict[str, int]
    stock_by_kind: dict[str, int]
    explicit_by_kind: dict[str, int]
    coverage: float
    opaque: dict[str, int]
    e_nodes: int
    stop: str
    candidates: int
    searched: bool
    extractions: list[Extracted] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    run: Run | None = field(default=None, repr=False, compare=False)

    def record(self) -> dict[str, Any]:
        """The figures, as JSON holds them."""
        return asdict(replace(self, run=None, tosa=b"", explicit=b"")) | {
            "tosa": len(self.tosa),
            "explicit": len(self.explicit),
        }

    def save(self, place: str | Path) -> None:
        """Saves the run (`eqsat/runs/run.py`). Raises InputError."""
        self._needed().save(place)

    def explain(
        self, node: int | None = None, rules: Sequence[Rule] = (), externs: Sequence[Extern] = ()
    ) -> Explanation | Verdict:
        """Why the result equals the input (`eqsat/explain`): the whole, or one node of the input. Rules of the user's own that took
        part must be given again."""
        explanation = self._needed().explain(rules, externs)
        return explanation if node is None else explanation.op(node)

    def _needed(self) -> Run:
        if self.run is None:
            raise InputError(
                f"there is no run to save or explain: {'; '.join(self.warnings) or 'no alternatives were found'}"
            )
        return self.run


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


def optimize_tosa(
    explicit: bytes,
    target: Target,
    *,
    stock: bytes | None = None,
    stock_error: str = "",
    options: Options | None = None,
    name: str = "the TOSA buffer",
) -> Result:
    """The cheapest graph equal to `explicit` for `target`, see the module's text.

    stock: the graph to beat, if there is one; stock_error says why there is none. Raises TosaError if `explicit` cannot be
    read, WorkerError if Vela refuses it and nothing else equals it: then there is nothing to fall back to here.
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
            candidates, refusals = [], []
            for which, graph, buffer in (("explicit", reference, explicit), ("stock", stock_graph, stock)):
                try:
                    if graph is not None:
                        candidates.append(Compiled(which, graph, buffer, compile_tosa(buffer, target, pool)))
                except WorkerError as e:
                    warnings.append(f"Vela refuses {_GIVEN[which]}: {e}")
                    refusals.append(e)
        frozen, extractions = None, []
        for families in ((), (tolerant,))[: 1 + (options.numerics == "tolerant")]:
            try:
                with clock.stage("saturate"):
                    frozen = saturate(reference, *options.identities(*families), options.budget)
                if families and not any(
                    frozen.saturation.matches.get(r.name) for r in tolerant.RULES if not r.analysis
                ):
                    break  # nothing to round less often: the exact candidates are all there are
                found = search(frozen, target, pool, options, clock, warnings, extractions)
                candidates += [replace(c, tolerant=bool(families)) for c in found]
            except Exception as e:  # noqa: BLE001 - also a user's rule or cost model may be at fault: never worse
                warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")
        with clock.stage("verify"):
            answer = first_equal(candidates, reference, pool, options, warnings)
        if answer is None:
            raise refusals[0]
    best = answer.best
    run = _run(name, target, options, candidates, best, explicit, stock)
    counts = reference.op_counts()
    opaque = {o.attr("tosa").lower(): 0 for o in reference.nodes if o.op == "opaque"}
    opaque = {k: counts.get(k, 0) for k in opaque}
    given = {c.name: c.estimate for c in candidates if not c.choices}
    before, beside = given.get("explicit"), given.get("stock")
    result = Result(
        tosa=best.tosa,
        explicit=explicit,
        chosen=best.name,
        cycles=best.estimate.cycles,
        stock_cycles=beside.cycles if beside else None,
        explicit_cycles=before.cycles if before else None,
        verified=answer.verified,
        deviation=best.deviation,
        stock_verified=answer.stock_verified,
        by_kind=best.estimate.by_kind,
        stock_by_kind=beside.by_kind if beside else {},
        explicit_by_kind=before.by_kind if before else {},
        coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
        opaque=opaque,
        e_nodes=frozen.n_nodes if frozen else 0,
        stop=frozen.saturation.stop if frozen else "failed",
        candidates=len(candidates),
        searched=any(c.choices for c in candidates),
        extractions=extractions,
        seconds=clock.seconds,
        warnings=warnings,
    )
    result.run = replace(run, result=result.record()) if run else None
    return result


def _run(
    name: str,
    target: Target,
    options: Options,
    candidates: Sequence[Compiled],
    best: Compiled,
    explicit: bytes,
    stock: bytes | None,
) -> Run | None:
    """What was known, around the chosen candidate or, where another graph won, the best that extraction found."""
    found = (
        best
        if best.choices
        else min((c for c in candidates if c.choices), key=lambda c: c.estimate.cycles, default=None)
    )
    if found is None:
        return None
    rules, _ = options.identities(*((tolerant,) if found.tolerant else ()))
    graphs = {"explicit": explicit, "chosen": best.tosa} | ({"stock": stock} if stock is not None else {})
    plain = {
        k: getattr(options, k)
        for k in ("preset", "extractor", "cost_model", "time_limit", "rounds", "trials", "numerics", "tolerance")
    }
    return Run(
        name,
        target,
        graphs,
        best.name,
        found.choices,
        found.choice,
        [r.name for r in rules],
        {**plain, "budget": asdict(options.budget)},
        tables={c.name: c.estimate.rows for c in candidates if c is found or not c.choices},
    )


def search(
    frozen: Frozen,
    target: Target,
    pool: Pool,
    options: Options,
    clock: _Clock,
    warnings: list[str],
    extractions: list[Extracted],
) -> list[Compiled]:
    """Graphs that extraction finds, each compiled whole by Vela; its table corrects prices between rounds. Adds to `extractions`."""
    cache = PriceCache(options.cache)
    seen: dict[bytes, Compiled] = {}

    def offer(found: Extraction, method: str, number: int) -> bool:
        """Compiles a choice whole; true if Vela's table shows units that cost far more than their price, which is corrected."""
        graph, origin = choices.tensor_graph(found.choice)
        buffer = dumps(graph)
        known = buffer in seen
        if not known:
            with clock.stage("vela"):
                seen[buffer] = Compiled(
                    "eqsat",
                    graph,
                    buffer,
                    compile_tosa(buffer, target, pool),
                    choices=choices,
                    choice=found.choice,
                    classes=computed_classes(choices, graph, origin),
                )
        estimate = seen[buffer].estimate
        extractions.append(
            Extracted(
                method, number, float(found.cost), estimate.cycles, found.gap if math.isfinite(found.gap) else None
            )
        )
        return not known and choices.corrected(graph, origin, estimate.rows)

    def run(method: str, extracted: Callable[[Extraction | None], Extraction]) -> Extraction:
        """The rounds of an extractor, each with the prices that the one before has corrected."""
        found = None
        for number in range(options.rounds):
            with clock.stage("extract"):
                found = extracted(found)
            if not offer(found, method, number):
                break
        return found

    def again(method: str, found: Extraction | None) -> Extraction:
        return extract(choices.graph, method, time_limit=options.time_limit, warm_start=found).unless_interrupted()

    def relaxed(copied: bool) -> Extraction:
        return choices.settled(extract(choices.relaxed(copied), "dag_greedy", time_limit=options.time_limit).choice)

    try:
        with clock.stage("price"):
            choices = choice.build(frozen, cost_models.find(options.cost_model)(target, pool, cache))
        starts = [
            run("dag_greedy", lambda _, copied=copied: relaxed(copied))
            for copied in ((False, True) if choices.last else ())
        ]
        starts.append(run("dag_greedy", lambda found: again("dag_greedy", found)))
        if options.extractor != "dag_greedy":
            best = min(starts, key=lambda found: check(choices.graph, found.choice))
            run(options.extractor, lambda found: again(options.extractor, found or best))
    except WorkerError as e:
        warnings.append(f"a candidate was dropped: {e}")
    except Infeasible as e:
        refused = unpriced(choices)
        raise Infeasible(f"no form of {'; '.join(refused)} has a price" if refused else str(e)) from e
    finally:
        cache.close()
    return list(seen.values())


def cheapest_layout(
    graph: TensorGraph, target: Target, options: Options | None = None
) -> tuple[TensorGraph, float, float]:
    """The graph equal to `graph` whose data movement costs least by `cost_models.layout`, its cost and that of `graph` itself.

    For graphs above TOSA's level, which Vela cannot price. Raises EngineError, GraphError, ExtractionError.
    """
    options = options or Options()
    model = Layout(target)
    before = extract(choice.build(saturate(graph, [], [], options.budget), model).graph, "dag_greedy").cost
    frozen = saturate(graph, *options.identities(), options.budget)
    choices = choice.build(frozen, model)
    found = extract(choices.graph, options.extractor, time_limit=options.time_limit).unless_interrupted()
    return choices.written(found.choice)[0], float(found.cost), float(before)
