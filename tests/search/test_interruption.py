"""A search that is ended early gives the best so far, verified as ever, and says so."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from eqsat import runs
from eqsat.ground.files import InputError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.interruption import Interruption, SearchInterrupted
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.result import Result
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import Reference
from tests.graphs import transposes

TARGET = "ethos-u85-256"


class AsksAt(logging.Handler):
    """Asks for the end of the search when a stage begins for the n-th time; what the answer was."""

    def __init__(self, stage: str, times: int = 1) -> None:
        super().__init__(logging.INFO)
        self.stage, self.left, self.interruption = stage, times, Interruption()
        self.answer: bool | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if getattr(record, "stage", "") == self.stage:
            self.left -= 1
            if not self.left:
                self.answer = self.interruption.ask()

    @contextmanager
    def listening(self) -> Iterator[None]:
        logger = logging.getLogger("eqsat")
        before = logger.level
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(before)


def interrupted(asks: AsksAt, tmp_path: Path, **more: Any) -> Result:
    given = dumps(transposes())
    options = Options(cache=tmp_path / "prices", **more)
    with asks.listening():
        return optimize_tosa(given, TARGET, stock=given, options=options, interruption=asks.interruption)


@pytest.mark.parametrize(("stage", "times", "found"), [("saturate", 1, False), ("vela", 1, True), ("extract", 3, True)])
def test_the_best_so_far_is_the_result(stage: str, times: int, found: bool, tmp_path: Path, pool: Pool) -> None:
    asks = AsksAt(stage, times)
    result = interrupted(asks, tmp_path)
    assert asks.answer and result.interrupted and result.record()["interrupted"]
    assert result.verified and result.calibrated <= result.stock_calibrated
    assert result.searched is found and len(result.extractions) == (times if found else 0)
    (warning,) = [w for w in result.warnings if "interrupted" in w]
    assert ("best" in warning) is found
    assert Reference(transposes(), pool, 4).compare(loads(result.tosa, "result")).equal
    if found:
        runs.save(result, tmp_path / "run")
        assert runs.load(tmp_path / "run").result["interrupted"]
    else:
        assert result.chosen in ("stock", "explicit")
        assert result.stop == ("interrupted" if stage == "saturate" else "saturated")
        with pytest.raises(InputError, match="interrupted"):
            runs.save(result, tmp_path / "run")


def test_what_is_asked_for_during_verification_ends_the_search_behind_it(tmp_path: Path) -> None:
    asks = AsksAt("verify")
    result = interrupted(asks, tmp_path)
    assert asks.answer and result.interrupted and result.searched and result.proved
    assert {e.extractor for e in result.extractions} == {"dag_greedy"}, "the search of the lower effort"


def test_what_is_asked_for_before_the_search_is_the_callers_to_act_on(tmp_path: Path) -> None:
    asks = AsksAt("import")
    result = interrupted(asks, tmp_path)
    assert asks.answer is False and not result.interrupted and result.searched


def test_an_interruption_says_whether_it_is_active() -> None:
    interruption = Interruption()
    assert not interruption.ask() and not interruption.asked()
    interruption.check()
    with interruption.active():
        assert interruption.ask() and interruption.ask() and interruption.asked()
    assert interruption.ask()
    with pytest.raises(SearchInterrupted):
        interruption.check()
