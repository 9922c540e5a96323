"""The surroundings of one optimization: where it runs, and what it logs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import OptionError, Options
from eqsat.options.referee import Referee, StreamPrice
from eqsat.search.clock import Clock
from eqsat.search.interruption import Interruption
from eqsat.search.result import Extracted
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa
from extraction import stopping


@dataclass(frozen=True, slots=True)
class Search:
    """One optimization, from its first stage to its last.

    warnings: what went wrong, for the user.
    extractions: each choice that was compiled.
    interruption: what ends it early.
    """

    target: Target
    pool: Pool
    options: Options
    clock: Clock = field(default_factory=Clock)
    warnings: list[str] = field(default_factory=list)
    extractions: list[Extracted] = field(default_factory=list)
    interruption: Interruption = field(default_factory=Interruption)

    @property
    def referee(self) -> Referee:
        return Referee(self.target, self.options)

    def compiled(self, buffer: bytes, settings: Sequence[str] = ()) -> tuple[Estimate, StreamPrice | None] | None:
        """A candidate as Vela compiles it, with settings besides those of the target, and the price of its commands
        where that decides; None, with a warning, where either refuses it."""
        try:
            with self.clock.stage("vela"):
                estimate = compile_tosa(buffer, self.target.with_flags(settings), self.pool)
            return estimate, self.referee.decisive(estimate)
        except (WorkerError, OptionError) as e:
            self.warnings.append(f"a candidate was dropped: {e}")
            return None

    @contextmanager
    def pricing(self) -> Iterator[None]:
        """The stage in which candidates are priced. Raises SearchInterrupted if there was an interruption before, or as
        soon as the workers are asked for another price."""
        self.interruption.check()
        with self.clock.stage("price"), self.pool.checking(self.interruption.check):
            yield

    @contextmanager
    def extracting(self) -> Iterator[None]:
        """The stage of one extraction, which an interruption ends with the best choice until then. Raises
        SearchInterrupted if there was one before."""
        self.interruption.check()
        with self.clock.stage("extract"), stopping(self.interruption.asked):
            yield
