"""The stages of a search, each from a state to the next one, with the proposals of each."""

from __future__ import annotations

import logging
from dataclasses import replace

from cost_models.cache import PriceCache
from eqsat.choice.choice import build
from eqsat.egraph import encoding
from eqsat.egraph.engine import TIME_LIMIT
from eqsat.ground.worker import Pool
from eqsat.options.plugins import make_cost_model
from eqsat.search.loop import Loop
from eqsat.search.proposal import Step
from eqsat.search.proposals.borders import borders
from eqsat.search.proposals.chains import chains
from eqsat.search.proposals.greedy import greedy
from eqsat.search.proposals.memory import memory
from eqsat.search.proposals.orders import orders
from eqsat.search.proposals.settings import settings
from eqsat.search.proposals.stripes import stripes, wanted
from eqsat.search.state import State
from eqsat.tensor.dead_channels import without_dead_channels
from eqsat.tensor.graph import TensorGraph
from eqsat.verification.checks import Checks
from eqsat.verification.verification import first_equal

logger = logging.getLogger(__name__)

#: Changes of a graph that is written; each goes on from the best so far.
REWRITINGS = (Step(chains, 0.1), Step(orders, 0.2), Step(borders, 0.3))
_SETTINGS = Step(settings, 1 / 6)
_STRIPES = Step(stripes, 0.3, wanted)


def saturate(loop: Loop, state: State, reference: TensorGraph, checks: Checks) -> State:
    """Returns the state with the e-graph under the rules of the options, unless saturation failed, with a warning.

    Dead channels are left out before if the prover proves that the smaller graph is equal.
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
            checked = pool.checked(loop.interruption.check)
            model = make_cost_model(state.options.cost_model, state.target, checked, prices)
            loop.interruption.check()
            with loop.clock.stage("price"):
                state = replace(state, choices=build(state.frozen, model))
    finally:
        prices.close()
        loop.warnings.extend(w for w in prices.store.warnings if w not in loop.warnings)
    return loop.drive(state, greedy) if state.choices else state


def improve(loop: Loop, state: State, checks: Checks) -> State:
    """Returns the state with graphs within the limits of memory, and with rewritten ones, also of the given graphs."""
    most = state.options.compilations
    state = loop.drive(state, memory, most) if most and state.extracted else state
    state = loop.improve(state, REWRITINGS, lambda c: c.choices is not None)
    for best in (c for c in state.front[:1] if c.choices):
        checks.begin(best)  # while other orders of the given graphs are tried
    return loop.improve(state, REWRITINGS, lambda c: c.choices is None)


def schedule(loop: Loop, state: State, checks: Checks) -> State:
    """Returns the state with the best graphs in settings of Vela, if the answer may have some, and in stripes.

    None of them is made of a better graph than the answer so far, which was found to be wrong.
    """
    with loop.clock.stage("verify"):
        first_equal(state.graphs, checks, state.decision)
    in_settings = (_SETTINGS,) if state.with_settings else ()
    state = loop.improve(state, in_settings, lambda c: checks.verified(c) is not False)
    state = loop.improve(state, [_STRIPES], lambda c: checks.verified(c) is not False)
    return loop.improve(state, in_settings, lambda c: c.by == "stripes")
