"""The state that one search shares among its stages: workers, options, clock and warnings."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ParamSpec, TypeVar

from eqsat.ground.files import PluginError
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.options.plugins import plugin_error
from eqsat.search.clock import Clock
from eqsat.search.interruption import Interruption, SearchInterrupted
from eqsat.search.result import Extracted
from eqsat.target import Target
from eqsat.vela.compile import Estimate, compile_tosa
from extraction import stopping

logger = logging.getLogger(__name__)

_Given = ParamSpec("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Search:
    """One optimization, from its first stage to its last.

    warnings: failures, for the user.
    extractions: each choice that was compiled.
    interruption: the request to end the search early.
    with_settings: whether the answer may have settings of Vela.
    """

    target: Target
    pool: Pool
    options: Options
    clock: Clock = field(default_factory=Clock)
    warnings: list[str] = field(default_factory=list)
    extractions: list[Extracted] = field(default_factory=list)
    interruption: Interruption = field(default_factory=Interruption)
    with_settings: bool = False
    _begun: dict[tuple[bytes, tuple[str, ...]], Future[Estimate]] = field(default_factory=dict)

    def begin(self, buffer: bytes, settings: Sequence[str] = ()) -> None:
        """Starts to compile a candidate in the background, which `compiled` is asked for later, or never."""
        key = buffer, tuple(settings)
        if key not in self._begun:
            target = self.target.with_flags(settings)
            self._begun[key] = self.pool.start(compile_tosa, buffer, target, self.pool)

    def compiled(self, buffer: bytes, settings: Sequence[str] = ()) -> Estimate | None:
        """Returns Vela's estimate of a candidate, None with a warning if Vela refuses it.

        settings: of Vela, besides those of the target.
        """
        try:
            with self.clock.stage("vela"):
                self.begin(buffer, settings)
                key = buffer, tuple(settings)
                # with settings the same graph is asked for again, towards other limits and at the end
                return (self._begun[key] if settings else self._begun.pop(key)).result()
        except WorkerError as e:
            self.warnings.append(f"a candidate was dropped: {e}")
            return None

    def attempt(self, step: Callable[_Given, _Found], *given: _Given.args, **named: _Given.kwargs) -> _Found | None:
        """Returns the result of a step that may fail: a failure loses candidates, but never the result.

        Returns None, with a warning, if the step fails, and None if the search is interrupted.
        Raises PluginError if the user's own code is at fault.
        """
        try:
            return step(*given, **named)
        except SearchInterrupted:
            return None
        except PluginError:
            raise
        except Exception as e:  # noqa: BLE001 - whatever it is
            if (mistake := plugin_error(e, self.options)) is not None:
                raise mistake from e
            logger.debug("no alternatives were found", exc_info=True)
            self.warnings.append(f"no alternatives were found: {type(e).__name__}: {e}")
            return None

    @contextmanager
    def pricing(self) -> Iterator[None]:
        """Within it candidates are priced, as a stage of the search.

        Raises SearchInterrupted if the search was interrupted before, or when the next price is asked of the workers.
        """
        self.interruption.check()
        with self.clock.stage("price"), self.pool.checking(self.interruption.check):
            yield

    @contextmanager
    def extracting(self) -> Iterator[None]:
        """Within it one extraction runs, as a stage of the search.

        An interruption ends it with the best choice so far.
        Raises SearchInterrupted if the search was interrupted before.
        """
        self.interruption.check()
        with self.clock.stage("extract"), stopping(self.interruption.asked):
            yield
