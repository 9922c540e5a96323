"""The sequence of an optimization: remember, saturate, and at each effort up to that of the options propose and verify.

The TOSA with explicit layout defines the meaning.
The candidates are stock ExecuTorch's graph, the explicit graph itself and what proposals make (`proposals/`).
The decision ranks them by their figures, after Vela has compiled them.
The answer is the first one that is proved to equal the reference for every input.
A failure costs a candidate, never the result.
Even the explicit graph may fail: Vela may refuse it, as with a TRANSPOSE too large for U55.
"""

from __future__ import annotations

from dataclasses import replace

from eqsat.ground.worker import Pool
from eqsat.options.decision import ALONE, Container
from eqsat.options.options import Options, given_options
from eqsat.search.answer_store import AnswerStore
from eqsat.search.given import Given, Stock
from eqsat.search.interruption import Interruption
from eqsat.search.loop import Loop
from eqsat.search.oracle import Oracle
from eqsat.search.outcome import conclude
from eqsat.search.proposals.exact import exact
from eqsat.search.recall import Memory, recall, respell
from eqsat.search.result import Result
from eqsat.search.stages import extract, improve, saturate, schedule
from eqsat.search.state import State
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.verification.checks import Checks

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
        loop = Loop(Oracle.of(target, pool), interruption=interruption or Interruption())
        with loop.clock.stage("import"):
            reference = loads(explicit, name)
            checks = Checks(reference, target, pool, options, loop.warnings)
            given = Given(explicit, stock, container, loop.oracle, checks, pool)
        with loop.interruption.active():
            state = State(target, options, with_settings)
            memory = Memory.of(store, explicit, reference, state, container) if store else None
            if memory:
                state = recall(loop, state, memory, given, checks)
            if not state.recalled:
                state = saturate(loop, state, reference, checks)
            if memory and not state.recalled:
                state = respell(loop, state, memory, given, checks)
            if not state.recalled:
                state = extract(loop, replace(state, options=options.levels[0]), pool)
                for level in options.levels:
                    state = loop.drive(replace(state, options=level), exact)
                    state = improve(loop, given.join(loop, state), checks)
                    state = schedule(loop, state, checks)
        return conclude(name, loop, state, checks, given, memory)
