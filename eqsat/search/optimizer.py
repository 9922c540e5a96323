"""The sequence of an optimization: saturate, extract, verify.

The TOSA with explicit layout defines the meaning.
The candidates are stock ExecuTorch's graph, the explicit graph itself and the extracted graphs.
Vela's corrected total of the whole graph ranks them.
The answer is the first one that is proved to equal the reference for every input.
A failure costs a candidate, never the result.
Even the explicit graph may fail: Vela may refuse it, as with a TRANSPOSE too large for U55.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from eqsat.choice.compiled import Compiled
from eqsat.ground.worker import Pool
from eqsat.options.decision import ALONE, Container, Figures
from eqsat.options.options import Options, given_options
from eqsat.search.answer_store import AnswerStore, KnownAnswer
from eqsat.search.candidates import Candidates
from eqsat.search.explored import Explored
from eqsat.search.given import Stock, begun
from eqsat.search.interruption import Interruption
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
        interruption = interruption or Interruption()
        search = Search(target, pool, options, interruption=interruption, with_settings=with_settings)
        with search.clock.stage("import"):
            reference = loads(explicit, name)
            checks = Checks(reference, target, pool, options, search.warnings)
            coming = begun(search, reference, explicit, stock, checks)
        with search.interruption.heeded():
            memory = Memory.of(store, explicit, reference, target, options, container, with_settings) if store else None
            search.warnings.extend(store.warnings if store else ())
            candidates = Candidates(search, reference, explicit, coming, checks, container, memory)
            again = partial(
                optimize_tosa,
                explicit,
                target,
                name=name,
                container=container,
                interruption=interruption,
                with_settings=with_settings,
                store=store,
            )
            outcome = _outcome(name, candidates, again)
        proof, kept = checks.binaries.begin_proof(outcome.answer.best), list[tuple[str, KnownAnswer]]()
        located = outcome.located()
        if memory and not (candidates.is_remembered or outcome.interrupted or outcome.nearest):
            kept = memory.entries(outcome.answer, located, candidates.exact, candidates.given)
        result = outcome.result(located)
        if memory:
            memory.keep(kept, proof.result())
        return result


def _outcome(name: str, candidates: Candidates, again: Callable[..., Result]) -> Outcome:
    """Returns the outcome of an optimization: the best candidate that equals the reference.

    The search goes on towards limits that nothing fits, but then the answer is the best one within the default limits.
    again: repeats the optimization with other options.
    Raises WorkerError if Vela refuses the explicit graph and no other graph equals it.
    """
    search, checks, known = candidates.search, candidates.checks, candidates.known
    found, others, decision = candidates.explored, candidates.others, candidates.decision
    interrupted = _is_interrupted(search, found)
    if search.with_settings and not known and not interrupted:
        search.attempt(begin_settings, search, [*others, *graphs(found)], decision)
    answer, found = answered(search, others, found, checks, decision)
    if answer is None:
        raise candidates.given.refusals["explicit"]
    compared = [*others, *graphs(found)]
    if not known:
        answer = _scheduled(candidates, answer, compared)
        answer = _with_less_effort(candidates, answer, compared, again)
    nearest: Figures | None = None
    with search.clock.stage("verify"):
        if not decision.limits.widest.fits(answer.best.figures):
            nearest = answer.best.figures
            answer = first_equal(compared, checks, decision.fallback) or answer
        verify_offers(compared, answer, checks, decision)
        tell(answer, compared, checks, decision, nearest)
    return Outcome(name, candidates, compared, found, interrupted, answer, nearest)


def _scheduled(candidates: Candidates, answer: Answer, compared: list[Compiled]) -> Answer:
    """Returns the answer or a better one with settings of Vela or rows in stripes, and adds to the graphs compared."""
    search, checks, decision = candidates.search, candidates.checks, candidates.decision
    if search.with_settings:
        found = search.attempt(in_other_settings, search, answer, compared, checks, decision) or []
        compared += found
        answer = (found and first_equal(compared, checks, decision)) or answer
    found = search.attempt(in_stripes, search, compared, checks, decision) or []
    compared += found
    return (found and first_equal(compared, checks, decision)) or answer


def _with_less_effort(
    candidates: Candidates, answer: Answer, compared: list[Compiled], again: Callable[..., Result]
) -> Answer:
    """Returns the answer or, if that does not fit, a better one of a search with less effort.

    It adds that to the graphs compared.
    Searches of different efforts take different paths, and another one may end nearer to the limits.
    """
    search, decision = candidates.search, candidates.decision
    less = search.options.with_less_effort()
    if not less or decision.limits.widest.fits(answer.best.figures) or search.interruption.asked():
        return answer
    result = search.attempt(again, stock=candidates.given.buffers.get("stock"), options=less)
    if result is None or result.chosen != "eqsat":
        return answer
    search.clock.add(result.seconds)
    found = compiled_again(result.tosa, result.settings, search)
    compared += [found] if found else []
    return first_equal(compared, candidates.checks, decision) or answer


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
