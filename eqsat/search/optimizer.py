"""The sequence of an optimization: remember, saturate, and at each effort up to that of the options propose and verify.

The TOSA with explicit layout defines the meaning.
The candidates are stock ExecuTorch's graph, the explicit graph itself and what proposals make (`proposals/`).
The decision ranks them by their figures, after Vela has compiled them.
The result is the first one that is proved to equal the reference for every input.
A failure costs a candidate, never the result.
Even the explicit graph may fail: Vela may refuse it, as with a TRANSPOSE too large for U55.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from cost_models.cache import PriceCache
from eqsat.choice.choice import build
from eqsat.choice.compiled import Compiled
from eqsat.egraph import encoding
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.ground.worker import Pool
from eqsat.options.decision import ALONE, Container
from eqsat.options.options import Options, make_cost_model, require_options
from eqsat.search.channels import channel_steps
from eqsat.search.figures import GraphFigures
from eqsat.search.interruption import Interruption
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.origins import table, with_locations
from eqsat.search.proposal import State, Step
from eqsat.search.proposals.borders import borders
from eqsat.search.proposals.chains import chains
from eqsat.search.proposals.exact import exact
from eqsat.search.proposals.greedy import greedy
from eqsat.search.proposals.memory import memory
from eqsat.search.proposals.orders import orders
from eqsat.search.proposals.settings import settings
from eqsat.search.proposals.stripes import choose_aims, stripes
from eqsat.search.recall import AnswerStore, Given, Memory, Stock, recall, respell
from eqsat.search.result import Point, Result, Run
from eqsat.target import Target
from eqsat.tensor.dead_channels import without_dead_channels
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads
from eqsat.vela.roofline import bound, over_bound
from eqsat.verification.checks import Checks, first_equal, pareto_set, tell, verify_offers
from eqsat.verification.equality import Attempt

__all__ = ["Result", "optimize_tosa"]

logger = logging.getLogger(__name__)

#: Changes of a graph that is written; each goes on from the best so far.
REWRITINGS = (Step(chains, 0.1), Step(orders, 0.2), Step(borders, 0.3))
_SETTINGS = Step(settings, 1 / 6)
_STRIPES = Step(stripes, 0.3, choose_aims)


def optimize_tosa(
    explicit: bytes,
    target: Target | str,
    *,
    stock: Stock | None = None,
    options: Options | None = None,
    name: str = "the TOSA buffer",
    container: Container = ALONE,
    interruption: Interruption | None = None,
    with_settings: bool = False,
    store: AnswerStore | None = None,
) -> Result:
    """Returns the cheapest graph equal to `explicit` for `target`.

    target: a Target, or an accelerator's name for ExecuTorch's defaults.
    stock: stock's graph, or a function that returns it; the result is compared with it.
    name: of the graph, for messages.
    container: the rest of the .pte around commands and weights, to which the limit of flash refers.
    interruption: the request to end the search early.
    Then the result is the best so far, verified as ever, at least `stock` or `explicit`.
    Ctrl-C alone raises KeyboardInterrupt.
    with_settings: whether the caller compiles the result with `Result.settings`, which the search then chooses, too.
    store: the store of answers (`recall.py`); the very same search is not repeated.

    Raises TargetError for an unknown name, and TosaError if `explicit` cannot be read.
    If Vela refuses `explicit` and no other graph equals it, raises TosaError for one with floats, else WorkerError.
    Raises PluginError if the user's own cost model, extractor or rule fails.
    """
    target, options = Target.of(target), require_options(options)
    with Pool() as pool:
        loop = Loop(Oracle(target, pool), interruption=interruption or Interruption())
        with loop.clock.stage("import"):
            reference = loads(explicit, name)
            checks = Checks(reference, target, pool, options, loop.warnings)
            given = Given(explicit, stock, container, loop.oracle, checks, pool)
        with loop.interruption.active():
            state = State(target, options, with_settings)
            known = Memory.of(store, explicit, reference, state, container) if store else None
            if known:
                state = recall(loop, state, known, given, checks)
            if not state.recalled:
                state = saturate(loop, state, reference, checks)
            if known and not state.recalled:
                state = respell(loop, state, known, given, checks, REWRITINGS)
            if not state.recalled:
                state = extract(loop, replace(state, options=options.levels[0]), pool)
                for level in options.levels:
                    state = loop.drive(replace(state, options=level), exact)
                    state = improve(loop, given.join(loop, state), checks)
                    state = schedule(loop, state, checks)
        return conclude(name, loop, state, checks, given, known)


def saturate(loop: Loop, state: State, reference: TensorGraph, checks: Checks) -> State:
    """Returns the state with the e-graph under the rules of the options, unless saturation failed, with a warning.

    Dead channels are left out before if the smaller graph is proved equal.
    """
    options, interruption, made_of = state.options, loop.interruption, None
    with loop.failing(state), loop.clock.stage("saturate"):
        smaller = without_dead_channels(reference)
        if smaller and checks.verifier.proves(smaller.graph):
            logger.info("the search goes on without dead channels")
            reference, made_of = smaller.graph, smaller.source
    with loop.failing(state):
        interruption.check()
        with loop.clock.stage("saturate"):
            rules = options.identities(state.target)
            frozen = encoding.saturate(reference, rules, options.budget, lambda *_: interruption.check())
            logger.info("%s e-nodes, %s", f"{frozen.n_nodes:,}", frozen.saturation.stop)
        if frozen.saturation.stop == TIME_LIMIT:
            loop.warnings.append(
                f"saturation was stopped after {options.budget.seconds:g} s: "
                "what is found depends on how busy this machine is"
            )
        return replace(state, frozen=frozen, made_of=made_of)
    return state


def extract(loop: Loop, state: State, pool: Pool) -> State:
    """Returns the state with prices, and with graphs that are extracted greedily; itself without an e-graph."""
    if state.frozen is None:
        return state
    prices = PriceCache(state.options.cache)
    try:
        with loop.failing(state):
            checked = pool.with_check(loop.interruption.check)
            model = make_cost_model(state.options.cost_model, state.target, checked, prices)
            loop.interruption.check()
            with loop.clock.stage("price"):
                state = replace(state, choices=build(state.frozen, model))
    finally:
        prices.close()
        loop.warnings.extend(w for w in prices.store.warnings if w not in loop.warnings)
    return loop.drive(state, greedy) if state.choices else state


def improve(loop: Loop, state: State, checks: Checks) -> State:
    """Returns the state with graphs within the limits of memory, and with rewritten ones, also of the given graphs.

    If the best graph is one that was rewritten, the best one as it was chosen may still overtake it when it is, too.
    """
    most = state.options.compilations
    state = loop.drive(state, memory, most) if most and state.extracted else state
    chosen = min(state.extracted, key=state.decision.rank_of, default=None)
    if chosen and chosen.choice is not state.front[0].choice:
        state = loop.improve(state, REWRITINGS, lambda c: c.choice is chosen.choice)
    state = loop.improve(state, REWRITINGS, lambda c: c.choices is not None)
    for best in (c for c in state.front[:1] if c.choices):
        checks.begin(best)  # while other orders of the given graphs are tried
    return loop.improve(state, REWRITINGS, lambda c: c.choices is None)


def schedule(loop: Loop, state: State, checks: Checks) -> State:
    """Returns the state with the best graphs in settings of Vela, if the result may have some, and in stripes.

    None of them is made of a graph that was found to be wrong.
    """
    with loop.clock.stage("verify"):
        first_equal(state.graphs, checks, state.decision)
    in_settings = (_SETTINGS,) if state.with_settings else ()
    state = loop.improve(state, (*in_settings, _STRIPES), lambda c: checks.verified(c) is not False)
    return loop.improve(state, in_settings, lambda c: c.by == "stripes")


def conclude(name: str, loop: Loop, state: State, checks: Checks, given: Given, known: Memory | None) -> Result:
    """Returns the result with the best graph of all, which is remembered unless it was or is not worth it.

    If nothing fits the limits, the result is the best graph within the default limits.
    Raises `Given.refusal` if Vela refuses the explicit graph and no other graph equals it.
    """
    interrupted = loop.interruption.asked()
    decision, graphs, reference, nearest = state.decision, state.graphs, checks.verifier.graph, None
    if interrupted:
        found = "the result is the best that was found until then"
        nothing = "nothing had been found by then, and there is no run to save"
        loop.warnings.append(f"the search was interrupted: {found if state.extracted else nothing}")
    with loop.clock.stage("verify"):
        answer = first_equal(graphs, checks, decision)
        if answer is None:
            raise given.refusal(name)
        if not decision.limits.widest.fits(answer.best.figures):
            nearest = answer.best.figures
            answer = first_equal(graphs, checks, replace(decision, limits=decision.default)) or answer
        verify_offers(graphs, answer, checks, decision)
        tell(answer, graphs, checks, decision, nearest)
        best, frozen = answer.best, state.frozen
        proof_of_binary, points = checks.binaries.begin_proof(best), _points(state, checks)
        located = with_locations(best, given.buffers["explicit"], state.made_of)
        run, lower_bound = _run(name, state, given, best, located, points), bound(reference, best.estimate.rates)
        rows = table(located, over_bound(best.estimate.rows, best.tosa, best.estimate.rates))
        stock_verified, stock_proved, stock_binary = checks.stock(given.stock)
        peers = {name: c for name, c in given.compiled.items() if name != "stock" or stock_verified is not False}
        figures = dict.fromkeys(("stock", "explicit", "eqsat"), GraphFigures())
        sides = {**peers, "eqsat": best}
        distinct = {c.key[1:]: c for c in sides.values()}
        told = {key: GraphFigures.of(c.estimate, state.target) for key, c in distinct.items()}
        figures |= {n: told[c.key[1:]] for n, c in sides.items()}
        if known and not (state.recalled == "remembered" or interrupted or nearest):
            known.keep(answer, located, graphs)
        of_binary = proof_of_binary.result()
    counts = reference.op_counts()
    names = dict.fromkeys(o.attr("tosa").lower() for o in reference.nodes if o.op == "opaque")
    opaque = {name: counts.get(name, 0) for name in names}
    no_e_graph = "interrupted" if interrupted else "remembered" if state.recalled else "failed"
    of_stock = of_binary if best.name == "stock" else Attempt(False)
    result = Result(
        tosa=located,
        explicit=given.buffers["explicit"],
        chosen=best.name,
        figures=figures,
        verified=answer.verified,
        stock_verified=stock_verified,
        proved=answer.proof.proved,
        undecided=list(answer.proof.undecided),
        error_bound=answer.proof.error_bound,
        stock_proved=stock_proved,
        settings=best.settings,
        binary_verified=answer.binary.equal,
        binary_reason=answer.binary.reason,
        binary_samples=answer.binary.samples,
        binary_proved=of_binary.proved or None,
        binary_undecided=list(of_binary.undecided),
        stock_binary_verified=stock_binary.equal if stock_binary else None,
        stock_binary_proved=of_stock.proved or None,
        stock_binary_undecided=list(of_stock.undecided),
        bound=lower_bound,
        coverage=1 - sum(opaque.values()) / max(1, sum(counts.values())),
        opaque=opaque,
        e_nodes=frozen.n_nodes if frozen else 0,
        stop=frozen.saturation.stop if frozen else no_e_graph,
        candidates=len(state.graphs),
        searched=bool(state.recalled or state.extracted),
        remembered=state.recalled == "remembered",
        respelled=state.recalled == "respelled",
        interrupted=interrupted,
        extractions=loop.extractions,
        limits=state.decision.limits,
        nearest=nearest,
        points=points,
        table=[r.record() for r in rows],
        channel_steps=channel_steps(best.graph, reference, state.target, best.figures.cycles),
        seconds=loop.clock.seconds,
        warnings=[w if n == 1 else f"{w} ({n} times)" for w, n in Counter(loop.warnings).items()],
        raw=best.estimate.raw,
    )
    return replace(result, run=replace(run, result=result.record())) if run else result


def _points(state: State, checks: Checks) -> list[Point]:
    """Returns the Pareto set of candidates that are not known to differ from the reference."""
    limits, possible = state.decision.limits.widest, pareto_set(state.graphs, checks)
    return [Point(c.name, c.figures, limits.fits(c.figures), checks.verified(c), c.tosa, c.settings) for c in possible]


def _run(name: str, state: State, given: Given, best: Compiled, located: bytes, points: Sequence[Point]) -> Run | None:
    """Returns the run around the chosen graph or, if it was given, the best extracted one; None without any.

    located: the flatbuffer of the chosen graph, with locations.
    """
    found = [c for c in state.graphs if c.choices is not None and not (c.settings or c.parts_of)]
    if state.recalled or not found:
        return None
    # it may have other settings, or more operators than were chosen
    same = [c for c in found if c.tosa == best.tosa] or [c for c in found if c.choice is best.choice]
    kept = same[0] if same else min(found, key=state.decision.rank_of)
    return Run(
        name,
        state.target,
        {**given.buffers, "chosen": located, **{f"point-{i}": p.tosa for i, p in enumerate(points)}},
        best.given or best.name,
        state.priced,
        kept.choice,
        [r.name for r in state.options.identities(state.target)],
        state.options.record(),
        tables={
            c.name: over_bound(c.estimate.rows, c.tosa, c.estimate.rates) for c in (*given.compiled.values(), kept)
        },
    )
