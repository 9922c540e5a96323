"""Efforts decide the budgets that are not given, and what is searched."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.bench.cells import Configuration
from eqsat.options.options import EFFORTS, OptionError, Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from tests.graphs import U85, channel_shuffle, transposed_relus


@pytest.mark.parametrize("number", range(len(EFFORTS)))
def test_an_effort_decides_the_budgets_that_are_not_given(number: int) -> None:
    effort, options = EFFORTS[number], Options(effort=number)
    budgets = (options.extractor, options.time_limit, options.binary_time_limit)
    assert budgets == (effort.extractor, effort.time_limit, effort.binary_time_limit)
    given = Options(effort=number, time_limit=7, extractor="asp")
    assert (given.time_limit, given.extractor) == (7, "asp")
    assert options.record()["effort"] == number
    assert Configuration.parse(f"eqsat:effort={number},rounds=5").optimizer_options() == replace(options, rounds=5)


def test_a_search_goes_through_the_lower_efforts_with_what_the_user_gave() -> None:
    assert Options() == Options(effort=2) and Options().levels == [Options(effort=1), Options()]
    assert Options(extractor="asp", rounds=5).levels[0] == Options(effort=1, extractor="asp", rounds=5)
    assert all(Options(effort=e).levels == [Options(effort=e)] for e in (0, 1))


@pytest.mark.parametrize("limits", [{}, {"max_sram": "-40%"}, {"objective": "sram"}])
def test_more_effort_tries_all_that_less_effort_tries(limits: dict[str, str]) -> None:
    given = dumps(channel_shuffle())
    less, more = (optimize_tosa(given, U85, options=Options(effort=e, **limits), with_settings=True) for e in (1, 2))
    assert more.extractions[: len(less.extractions)] == less.extractions
    assert len(more.extractions) > len(less.extractions) and more.calibrated <= less.calibrated


@pytest.mark.parametrize("wrong", [-1, 3, 4, "2"])
def test_another_effort_is_an_error(wrong: int) -> None:
    with pytest.raises(OptionError, match="there is no effort") as e:
        Options(effort=wrong)
    assert ("removed in 0.2: use 2" in str(e.value)) == (wrong == 3)


@pytest.mark.slow
def test_without_effort_nothing_is_searched(tmp_path: Path) -> None:
    given = dumps(transposed_relus())
    none, some = (
        optimize_tosa(given, U85, options=Options(effort=e, cache=tmp_path / "p", max_sram="any", max_flash="any"))
        for e in (0, 1)
    )
    assert Options(effort=0).identities(U85) == [] and Options(effort=1).identities(U85)
    assert none.verified and some.verified and some.calibrated < none.calibrated <= none.explicit_calibrated
    assert {e.extractor for e in none.extractions + some.extractions} == {"dag_greedy"}
    assert none.e_nodes < some.e_nodes


@pytest.mark.parametrize(
    ("field", "small", "least"),
    [("time_limit", -1.0, 0), ("rounds", 0, 1), ("binary_time_limit", -5, 0)],
)
def test_a_budget_is_a_number_that_is_large_enough(field: str, small: float, least: int) -> None:
    for value, said in ((small, f"{small:g}: give at least {least}"), ("5", "'5': give a number")):
        with pytest.raises(OptionError, match=f"{field} is {said}"):
            Options(**{field: value})
    Options(**{field: least})
