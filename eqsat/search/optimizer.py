"""The sequence of an optimization: saturate, extract, verify.

The TOSA with explicit layout defines the meaning.
The candidates are stock ExecuTorch's graph, the explicit graph itself and the extracted graphs.
Vela's corrected total of the whole graph ranks them.
The answer is the first one that equals the reference to the bit on the TOSA reference model.
A failure costs a candidate, never the result.
Even the explicit graph may fail: Vela may refuse it, as with a TRANSPOSE too large for U55.

With tolerant numerics a second e-graph also has rules that save roundings (`eqsat/rules/tolerant.py`).
Its graphs compete with the exact candidates, and may differ from the reference within `Options.tolerance`.
`Result.deviation` tells by how much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from eqsat.choice.compiled import Compiled
from eqsat.egraph.encoding import Frozen
from eqsat.ground.worker import Pool
from eqsat.options.decision import ALONE, Container, Decision
from eqsat.options.options import Options, given_options
from eqsat.search.alternatives import by_cycles, improved
from eqsat.search.answer_store import AnswerStore
from eqsat.search.egraphs import rounding_less, saturated
from eqsat.search.explored import Explored
from eqsat.search.given import Given, Stock, begun
from eqsat.search.interruption import Interruption
from eqsat.search.order_rounds import in_other_orders
from eqsat.search.outcome import Outcome
from eqsat.search.recall import Memory, compiled_again
from eqsat.search.repairs import answered, graphs
from eqsat.search.result import Result
from eqsat.search.search import Search
from eqsat.search.setting_rounds import begin_settings, in_other_settings
from eqsat.search.stripe_rounds import in_stripes
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.verification.checks import Answer, Checks
from eqsat.verification.verification import first_equal, tell, verify_offers

__all__ = ["Result", "optimize_tosa"]


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
    with_settings: whether the caller compiles the answer with `Result.settings` of Vela.
    If so, the search chooses these, too.
    store: the store of answers (`recall.py`); the very same search is not repeated.

    Raises OptionError if the total by which graphs are ranked cannot price one.
    Raises TargetError for an unknown name, and TosaError if `explicit` cannot be read.
    Raises WorkerError if Vela refuses `explicit` and no other graph equals it.
    Raises PluginError if the user's own cost model, extractor or rule fails.
    """
    target, options = Target.of(target), given_options(options)
    with Pool() as pool:
        search = Search(target, pool, options, interruption=interruption or Interruption())
        with search.clock.stage("import"):
            reference = loads(explicit, name)
            checks = Checks(reference, target, pool, options, search.warnings)
            coming = begun(search, reference, explicit, stock, checks)
        with search.interruption.heeded():
            memory = Memory.of(store, explicit, reference, target, options, container, with_settings) if store else None
            search.warnings.extend(store.warnings if store else ())
            known = memory is not None and memory.answer is not None
            exact = None if known else saturated(search, reference)
            respelled = (exact and memory and search.attempt(memory.respelled, search, exact)) or []
            first = None if respelled else _by_cycles(search, exact)
            given = Given.of(coming, explicit, search)
            decision = given.decision(search, container)
            remembered = (memory and search.attempt(memory.candidates, search)) or []
            others = [*given.compiled.values(), *remembered]
            if known and memory and not search.attempt(memory.holds, given, remembered, checks):
                known, exact = False, saturated(search, reference)
                first = _by_cycles(search, exact)
            if respelled and memory:
                others += (respelled := search.attempt(memory.in_order, search, respelled, decision) or respelled)
                known = bool(search.attempt(memory.gains_as_before, given, respelled, decision, checks))
                first = None if known else _by_cycles(search, exact)
            best = search.attempt(improved, search, first, decision) if first else None
            found = [best] if best and best.graphs else []
            if not known:
                others += search.attempt(in_other_orders, given, search, graphs(found), decision, checks) or []
            frozen, rounded = (None, []) if known else rounding_less(search, reference, decision)
            interrupted = _is_interrupted(search, [*found, *rounded])
            if with_settings and not known and not interrupted:
                search.attempt(begin_settings, search, [*others, *graphs([*found, *rounded])], decision)
            answer, found = answered(search, others, [*found, *rounded], checks, decision)
            if answer is None:
                raise given.refusals["explicit"]
            candidates = [*others, *graphs(found)]
            if not known:
                answer = _scheduled(search, answer, candidates, checks, decision, with_settings)
            less, fits = options.with_less_effort(), decision.limits.widest.fits(answer.best.figures)
            if less and not known and not fits and not search.interruption.asked():
                again = partial(
                    optimize_tosa,
                    explicit,
                    target,
                    stock=given.buffers.get("stock"),
                    options=less,
                    name=name,
                    container=container,
                    interruption=search.interruption,
                    with_settings=with_settings,
                    store=store,
                )
                answer = _with_less_effort(again, search, answer, candidates, checks, decision)
            with search.clock.stage("verify"):
                verify_offers(candidates, answer, checks, decision)
                tell(answer, candidates, checks, decision)
        last = frozen or exact
        outcome = Outcome(
            name,
            search,
            reference,
            given,
            decision,
            candidates,
            found,
            last,
            interrupted,
            known,
            known and bool(respelled),
            answer,
            checks,
        )
        result = outcome.result()
        if memory and not result.remembered and not interrupted:
            memory.keep(answer, result.tosa, exact, given)
        return result


def _by_cycles(search: Search, exact: Frozen | None) -> Explored | None:
    """Returns the graphs found by cycles; None if there is no e-graph, or if that fails."""
    return search.attempt(by_cycles, search, exact) if exact else None


def _scheduled(
    search: Search,
    answer: Answer,
    candidates: list[Compiled],
    checks: Checks,
    decision: Decision,
    with_settings: bool,
) -> Answer:
    """Returns the answer or a better one with settings of Vela or rows in stripes, and adds to the candidates."""
    if with_settings:
        found = search.attempt(in_other_settings, search, answer, candidates, checks, decision) or []
        candidates += found
        answer = (found and first_equal(candidates, checks, decision)) or answer
    found = search.attempt(in_stripes, search, candidates, checks, decision, with_settings) or []
    candidates += found
    return (found and first_equal(candidates, checks, decision)) or answer


def _with_less_effort(
    again: Callable[[], Result],
    search: Search,
    answer: Answer,
    candidates: list[Compiled],
    checks: Checks,
    decision: Decision,
) -> Answer:
    """Returns the answer or a better one of a search with less effort, and adds that to the candidates.

    Searches of different efforts take different paths, and another one may end nearer to the limits.
    """
    result = search.attempt(again)
    if result is None or result.chosen != "eqsat":
        return answer
    search.clock.add(result.seconds)
    found = compiled_again(result.tosa, result.settings, search)
    candidates += [found] if found else []
    return first_equal(candidates, checks, decision) or answer


def _is_interrupted(search: Search, found: Sequence[Explored]) -> bool:
    """Whether the search was ended early, of which it then warns the user."""
    if not search.interruption.asked():
        return False
    left = (
        "the result is the best that was found until then"
        if graphs(found)
        else "nothing had been found by then, and there is no run to save"
    )
    search.warnings.append(f"the search was interrupted: {left}")
    return True
