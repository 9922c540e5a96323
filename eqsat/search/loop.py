"""The loop: it lets the oracle compile what proposals yield, and alone looks ahead, counts, stops, warns and logs."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import islice

from eqsat.choice.compiled import Candidate, Compiled, Key
from eqsat.ground.files import PluginError
from eqsat.ground.process import WorkerError
from eqsat.options.options import plugin_error
from eqsat.search.clock import Clock
from eqsat.search.interruption import Interruption, SearchInterrupted
from eqsat.search.oracle import Oracle
from eqsat.search.proposal import Ask, Proposal, State, Step, starting_points
from eqsat.search.result import Extracted
from extraction import stopping

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loop:
    """One search, from its first stage to its last.

    warnings: failures, for the user.
    extractions: each compilation that was counted.
    interruption: the request to end the search early.
    """

    oracle: Oracle
    clock: Clock = field(default_factory=Clock)
    warnings: list[str] = field(default_factory=list)
    extractions: list[Extracted] = field(default_factory=list)
    interruption: Interruption = field(default_factory=Interruption)

    def improve(self, state: State, steps: Iterable[Step], among: Callable[[Compiled], bool]) -> State:
        """Returns the state after steps, each from the best graphs of a kind. among: whether a graph is of the kind."""
        decision, compilations = state.decision, state.options.compilations
        for step in steps if compilations else ():
            for aim in step.aims(state):
                for start in starting_points(state, aim, among):
                    state = self.drive(state.setting_out(start, aim), step.propose, step.share * compilations)
                    state = state.setting_out(None, decision)
        return state

    def drive(self, state: State, propose: Proposal, most: float = math.inf) -> State:
        """Returns the state after a proposal, of which at most so many compilations are new.

        A proposal that fails loses what it would have found, with a warning.
        The same graphs are found on every machine, as results come in the order in which they were asked for.
        Raises PluginError if the user's own code is at fault.
        """
        name, left, known = propose.__name__, most, len(state.graphs)
        with closing(propose(state)) as turn, self.failing(state):
            ask = self._next(turn, None)
            while ask is not None:
                new = list({c.key: c for c in ask.now if c.key not in state.compiled}.values())
                if len(new) > left:
                    logger.info("%s: all its compilations were made", name)
                    break
                left -= len(new)
                found = self._compile(new, ask.likely, left)
                state = state.after(ask.now, found)
                for c in {c.key: c for c in ask.now}.values():
                    if (result := state.compiled[c.key]) and (c.key in found or c.is_chosen):
                        self._tell(c, result, name, c.key in found)
                ask = self._next(turn, state)
        logger.info("%s ended, %s new graphs", name, len(state.graphs) - known)
        return state

    def _next(self, turn: Generator[Ask, State, object], state: State | None) -> Ask | None:
        """Returns the next `Ask`, None if there is none or the search was interrupted. state: None at first."""
        if self.interruption.asked():
            return None
        with self.clock.stage("extract"), stopping(self.interruption.asked):
            try:
                return next(turn) if state is None else turn.send(state)
            except StopIteration:
                return None

    def _compile(
        self, new: Sequence[Candidate], likely: Iterable[Candidate], left: float
    ) -> dict[Key, Compiled | None]:
        """Returns new candidates as Vela compiles them, None where it refuses one; begins likely ones meanwhile."""
        ahead = max(0, self.oracle.ahead - len(new))
        with self.clock.stage("vela"):
            for candidate in (*new, *islice(likely, int(min(ahead, left)))):
                self.oracle.begin(candidate)
            return {c.key: self._answer(c) for c in new}

    def _answer(self, candidate: Candidate) -> Compiled | None:
        """Returns a candidate as Vela compiles it, None with a warning if Vela refuses it."""
        try:
            return self.oracle.compile(candidate)
        except WorkerError as e:
            self.warnings.append(f"a candidate was dropped: {e}")
            return None

    def _tell(self, c: Candidate, result: Compiled, name: str, is_new: bool) -> None:
        """Logs and records one result, with the proposal that asked for it."""
        cycles, known = result.figures.cycles, "" if is_new else ", a graph that is known"
        gap = "" if c.gap is None else f", gap {c.gap:.1%}"
        told = f"{cycles:,}", name, f" with {c.by}" if c.by not in ("", name) else "", gap, known
        logger.info("%s cycles by %s%s%s%s", *told, extra={"cycles": cycles})
        number = sum(e.proposal == name and e.extractor == c.by for e in self.extractions)
        if c.by:
            self.extractions.append(Extracted(c.by, number, c.predicted, cycles, c.gap, name))

    @contextmanager
    def failing(self, state: State) -> Iterator[None]:
        """Within it anything may fail: a failure loses candidates, but never the result.

        Adds a warning if something fails, and none if the search is interrupted.
        Raises PluginError if the user's own code is at fault.
        """
        try:
            yield
        except SearchInterrupted:
            pass
        except PluginError:
            raise
        except Exception as e:  # noqa: BLE001 - whatever it is
            if (mistake := plugin_error(e, state.options)) is not None:
                raise mistake from e
            logger.debug("no alternatives were found", exc_info=True)
            self.warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")
