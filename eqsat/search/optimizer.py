"""Saturate, extract, verify: the whole story.

The TOSA with explicit layout is the reference for meaning. The candidates are stock ExecuTorch's graph, the explicit graph
itself and what extraction finds; Vela's corrected total of the whole graph ranks them, and the first in that order that equals the
reference to the bit on the TOSA reference model is the answer. Whatever fails costs a candidate, never the result; also the explicit
graph itself, which Vela may refuse (a TRANSPOSE that U55 has no room for).

With tolerant numerics a second e-graph also has rules that save roundings (`eqsat/rules/tolerant.py`). What is found there competes with
the exact candidates, and may differ from the reference within `Options.tolerance`; `Result.deviation` tells by how much it does.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial

from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen, saturate
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.egraph.rule import Rule
from eqsat.files import PluginError
from eqsat.options.decision import ALONE, Container, Decision, MemoryLimits
from eqsat.options.effort import EFFORTS
from eqsat.options.options import Options, given_options
from eqsat.options.plugins import plugin_error
from eqsat.options.referee import disagreement
from eqsat.rules import tolerant
from eqsat.search.alternatives import alternatives, without
from eqsat.search.given import Given, Stock
from eqsat.search.interruption import Interruption, SearchInterrupted
from eqsat.search.less_memory import rules_for_less
from eqsat.search.origins import table, with_locations
from eqsat.search.result import Point, Result
from eqsat.search.run import Run
from eqsat.search.search import Search
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.roofline import bound, over_bound
from eqsat.verification.verification import (
    Answer,
    Checks,
    Judged,
    first_equal,
    pareto_set,
    rank,
    tell,
    verify_offers,
)
from eqsat.workers.worker import Pool
from extraction import Infeasible

#: There is no second e-graph with forms that need less memory where the first has more e-nodes: it would take as long again.
_MOST_E_NODES = 15_000
#: Where Vela compiles a candidate wrongly that is better than the answer by more than this share, the search goes on without what is
#: at fault, so many times at most.
_BEHIND, _REPAIRS = 0.01, 3

__all__ = ["Result", "optimize_tosa"]

logger = logging.getLogger(__name__)


def optimize_tosa(
    explicit: bytes,
    target: Target | str,
    *,
    stock: Stock | None = None,
    options: Options | None = None,
    name: str = "the TOSA buffer",
    container: Container = ALONE,
    interruption: Interruption | None = None,
) -> Result:
    """The cheapest graph equal to `explicit` for `target`, see the module's text.

    target: a Target, or an accelerator's name for ExecuTorch's defaults. stock: the graph to beat, if there is one, or what gives it once it is
    needed. container: what is around the graph's commands and weights in a .pte, to which its limit of flash refers. interruption: what ends the
    search with the best that was found until then, verified as ever, at least `stock` or `explicit`; Ctrl-C alone is a KeyboardInterrupt.

    Raises OptionError where the referee that the options want cannot price a graph, TargetError for an unknown name, TosaError if `explicit` cannot
    be read, WorkerError if Vela refuses it and nothing else equals it: then there is nothing to fall back to here. Raises PluginError where the user's own cost
    model, extractor or rule fails.
    """
    target, options = Target.of(target), given_options(options)
    with Pool() as pool:
        search = Search(target, pool, options, interruption=interruption or Interruption())
        with search.clock.stage("import"):
            given = Given(explicit, stock, search, name)
        search.decide = partial(_decision, given, search, container)
        with search.interruption.heeded():
            exact = _saturated(given.reference, search)
            frozen, found = _alternatives(given, search, exact)
            interrupted = _is_interrupted(search, found)
            decision = search.decision
            candidates = [*given.compiled.values(), *found]
            answer = _answer(candidates, search, given.checks)
            if answer is None:
                raise given.refusals["explicit"]
            with search.clock.stage("verify"):
                verify_offers(candidates, answer, given.checks, decision)
                tell(answer, candidates, given.checks, decision)
        result = _result(given, search, frozen, candidates, answer, interrupted)
    run = _run(name, given, search, candidates, answer.best, result)
    result.run = replace(run, result=result.record()) if run else None
    return result


def _decision(given: Given, search: Search, container: Container) -> Decision:
    """What answers are chosen by, which the given graphs say; waits for them."""
    with search.clock.stage("given graphs"):
        given.wait()
    footprints = {n: c.estimate.footprint for n, c in given.compiled.items()}
    figures = {n: c.figures for n, c in given.compiled.items()}
    return Decision.of(search.options, footprints, figures, container)


@contextmanager
def _never_worse(search: Search) -> Iterator[None]:
    """What fails within costs alternatives and no result, unless the user's own code is at fault. Raises PluginError."""
    try:
        yield
    except SearchInterrupted:
        pass
    except PluginError:
        raise
    except Exception as e:  # noqa: BLE001 - whatever it is
        if (mistake := plugin_error(e, search.options)) is not None:
            raise mistake from e
        logger.debug("no alternatives were found", exc_info=True)
        search.warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")


def _saturated(reference: TensorGraph, search: Search, more: Sequence[Rule] = ()) -> Frozen | None:
    """The e-graph under the rules of the options and more; None where that fails."""
    options = search.options
    with _never_worse(search):
        search.interruption.check()
        with search.clock.stage("saturate"):
            rules = options.identities(search.target, more)
            frozen = saturate(reference, rules, options.budget, lambda *_: search.interruption.check())
        if frozen.saturation.stop == TIME_LIMIT:
            search.warnings.append(
                f"saturation was stopped after {options.budget.seconds:g} s: what is found depends on how busy this machine is"
            )
        return frozen
    return None


def _alternatives(given: Given, search: Search, exact: Frozen | None) -> tuple[Frozen | None, list[Compiled]]:
    """The last e-graph, if there is one, and what was found in all of them: in the exact one; where nothing fast fits, in one with forms that need less
    memory; and where that is wanted in a tolerant one."""
    found: list[Compiled] = []
    if exact:
        with _never_worse(search):
            found += alternatives(search, exact)
        with _never_worse(search):
            if exact.n_nodes <= _MOST_E_NODES:
                found += _with_less_memory(given, search, found)
    if search.options.numerics != "tolerant" or not (frozen := _saturated(given.reference, search, tolerant.RULES)):
        return exact, found
    if any(
        frozen.saturation.matches.get(r.name) for r in tolerant.RULES if not r.analysis
    ):  # there is something to round less often
        with _never_worse(search):
            more = tuple(tolerant.RULES)
            found += [replace(c, tolerant=True, more=more) for c in alternatives(search, frozen)]
    return frozen, found


def _with_less_memory(given: Given, search: Search, found: Sequence[Compiled]) -> list[Compiled]:
    """What a second e-graph has, by greedy extraction: prices are known by now, and what it is about is memory."""
    if not found or not EFFORTS[search.options.effort].less_memory:
        return []
    aims = search.decision.aims  # which are known once the given graphs are compiled
    wanted = [rules_for_less([*given.compiled.values(), *found], limits) for limits in aims]
    more = list(dict.fromkeys(rule for rules in wanted for rule in rules))
    if not more:
        return []
    frozen = _saturated(given.reference, search, more)
    if not frozen or not any(frozen.saturation.matches.get(r.name) for r in more):
        return []
    again = replace(search, decide=lambda: search.decision, options=replace(search.options, extractor="dag_greedy"))
    return [replace(c, more=tuple(more)) for c in alternatives(again, frozen)]


def _answer(candidates: list[Compiled], search: Search, checks: Checks) -> Answer | None:
    """The first candidate that may be the answer.

    Where Vela compiles a better one wrongly, the search goes on without the choices at which the wrong binaries begin
    to differ; what it finds is added to the candidates.
    """
    known = 0
    for _ in range(_REPAIRS):
        with search.clock.stage("verify"):
            answer = first_equal(candidates, checks, search.decision)
        wrong, known = checks.miscompiled[known:], len(checks.miscompiled)
        more = _without(wrong, answer, search) if answer else []
        if not more:
            return answer
        candidates += more
    with search.clock.stage("verify"):
        return first_equal(candidates, checks, search.decision)


def _without(wrong: Sequence[tuple[Compiled, Judged]], answer: Answer, search: Search) -> list[Compiled]:
    """Candidates without the choices at which binaries go wrong that are better than the answer's by more than `_BEHIND`."""
    found: list[Compiled] = []
    forbidden: dict[int, tuple[Compiled, set[int]]] = {}
    for c, judged in wrong:
        if c.choices is None or not search.decision.is_better(c.figures, answer.best.figures, by=_BEHIND):
            continue
        origin = c.choices.tensor_graph(c.choice)[1]
        if judged.culprit in origin:
            forbidden.setdefault(id(c.choices), (c, set()))[1].add(origin[judged.culprit])
    for c, nodes in forbidden.values():
        with _never_worse(search), suppress(Infeasible):  # there may be no other form of what is at fault
            found += [replace(f, tolerant=c.tolerant, more=c.more) for f in without(search, c, nodes)]
    return found


def _is_interrupted(search: Search, found: Sequence[Compiled]) -> bool:
    """Whether the search was ended before it was done; then the user is told what that leaves."""
    if not search.interruption.asked():
        return False
    left = (
        "the result is the best that was found until then"
        if found
        else "nothing had been found by then, and there is no run to save"
    )
    search.warnings.append(f"the search was interrupted: {left}")
    return True


def _result(
    given: Given,
    search: Search,
    frozen: Frozen | None,
    candidates: Sequence[Compiled],
    answer: Answer,
    interrupted: bool,
) -> Result:
    best, located = answer.best, with_locations(answer.best, given.buffers["explicit"])
    with search.clock.stage("verify"):
        stock_verified, stock_proved, stock_binary = given.checks.stock(candidates)
    proof = answer.proof
    explicit, stock = given.compiled.get("explicit"), given.compiled.get("stock")
    counts = given.reference.op_counts()
    names = dict.fromkeys(o.attr("tosa").lower() for o in given.reference.nodes if o.op == "opaque")
    opaque = {name: counts.get(name, 0) for name in names}
    priced = {
        name: c.judged or search.referee.price(c.estimate)
        for name, c in {c.name: c for c in (explicit, stock, best) if c}.items()
    }
    streams = {"stock": priced.get("stock"), "explicit": priced.get("explicit"), "eqsat": priced[best.name]}
    if before := stock or explicit:
        cycles = before.estimate.corrected, best.estimate.corrected
        if warning := disagreement(cycles, (streams[before.name], streams["eqsat"])):
            search.warnings.append(warning)
    return Result(
        tosa=located,
        explicit=given.buffers["explicit"],
        chosen=best.name,
        cycles=best.estimate.cycles,
        stock_cycles=stock.estimate.cycles if stock else None,
        explicit_cycles=explicit.estimate.cycles if explicit else None,
        corrected=best.estimate.corrected,
        stock_corrected=stock.estimate.corrected if stock else None,
        explicit_corrected=explicit.estimate.corrected if explicit else None,
        verified=answer.verified,
        deviation=answer.deviation,
        stock_verified=stock_verified,
        proved=answer.is_proved,
        undecided=[f"{o.operator}: {o.reason}" for o in proof.undecided] if proof else [],
        error_bound=proof.error_bound if proof else float(best.name != "explicit"),
        stock_proved=stock_proved,
        binary_verified=answer.binary.equal,
        binary_reason=answer.binary.reason,
        stock_binary_verified=stock_binary.equal if stock_binary else None,
        command_stream=streams,
        referee=search.options.referee,
        by_kind=best.estimate.by_kind,
        stock_by_kind=stock.estimate.by_kind if stock else {},
        explicit_by_kind=explicit.estimate.by_kind if explicit else {},
        footprint=best.estimate.footprint,
        stock_footprint=stock.estimate.footprint if stock else None,
        explicit_footprint=explicit.estimate.footprint if explicit else None,
        bound=bound(given.reference, best.estimate.rates),
        coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
        opaque=opaque,
        e_nodes=frozen.n_nodes if frozen else 0,
        stop=frozen.saturation.stop if frozen else "interrupted" if interrupted else "failed",
        candidates=len(candidates),
        searched=any(c.choices for c in candidates),
        interrupted=interrupted,
        extractions=search.extractions,
        limits=search.decision.limits,
        points=_points(candidates, given.checks, search.decision.limits),
        table=table(located, over_bound(best.estimate.rows, best.tosa, best.estimate.rates)),
        seconds=search.clock.seconds,
        warnings=search.warnings,
        raw=best.estimate.raw,
    )


def _points(candidates: Sequence[Compiled], checks: Checks, limits: MemoryLimits) -> list[Point]:
    """The Pareto set of what may replace the reference, as far as that is known."""
    possible = pareto_set(candidates, checks)
    return [Point(c.name, c.figures, limits.fits(c.figures), checks.verified(c), c.tosa) for c in possible]


def _run(
    name: str,
    given: Given,
    search: Search,
    candidates: Sequence[Compiled],
    best: Compiled,
    result: Result,
) -> Run | None:
    """What was known, around the chosen candidate or, where another graph won, the best that extraction found."""
    found = (
        best
        if best.choices
        else min((c for c in candidates if c.choices), key=lambda c: rank(c, search.decision), default=None)
    )
    if found is None or found.choices is None:
        return None
    rules = search.options.identities(search.target, found.more)
    return Run(
        name,
        search.target,
        {**given.buffers, "chosen": result.tosa, **{f"point-{i}": p.tosa for i, p in enumerate(result.points)}},
        best.name,
        found.choices,
        found.choice,
        [r.name for r in rules],
        search.options.record(),
        tables={
            c.name: over_bound(c.estimate.rows, c.tosa, c.estimate.rates)
            for c in candidates
            if c is found or not c.choices
        },
    )
