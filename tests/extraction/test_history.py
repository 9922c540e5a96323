"""A race ends before its time where nothing comes of it any more, and not before."""

from __future__ import annotations

import math
import os

import pytest

from eqsat.ground.process import starved_seconds
from extraction import check, extract, portfolio, race
from extraction.history import History
from extraction.race import Entrant
from tests.extraction.test_extraction_portfolio import hard_graph, rogue_solver


def end(history: History, cost: float, bound: float, after: float, until: float = 100.0) -> float:
    """When a race ends of which nothing is new after so many seconds; inf: not by its history."""
    times = [after + 0.1 * i for i in range(int((until - after) * 10))]
    return next((t for t in times if history.ends(cost, bound, t)), math.inf)


def test_it_ends_after_half_of_the_time_without_news() -> None:
    history = History(10.0)
    assert not history.ends(1000, 0, 3.0)
    assert end(history, 1000, 0, 3.1) == pytest.approx(6.0)


def test_but_not_before_a_fifth_of_the_limit() -> None:
    history = History(100.0)
    assert not history.ends(1000, 0, 1.0)
    assert end(history, 1000, 0, 1.1) == pytest.approx(21.0)


@pytest.mark.parametrize(("cost", "bound", "ends"), [(1000, 3, 10.0), (1000, 2, 6.0), (997, 0, 10.0), (999, 0, 6.0)])
def test_news_are_better_choices_and_bounds_that_rise_visibly(cost: float, bound: float, ends: float) -> None:
    history = History(10.0)
    assert not history.ends(1000, 0, 3.0) and not history.ends(cost, bound, 5.0)
    assert end(history, cost, bound, 5.1) == pytest.approx(ends)


def test_a_bound_that_creeps_is_news_once_it_has_come_far_enough() -> None:
    history = History(10.0)
    assert not history.ends(1000, 0, 3.0)
    assert not any(history.ends(1000, 1.5 * i, 3.0 + i) for i in range(1, 5))  # 0.3% at 5 seconds, and at 7
    assert end(history, 1000, 6.0, 7.1) == pytest.approx(14.0)


def test_a_solver_that_begins_is_news() -> None:
    history = History(10.0)
    assert not history.ends(1000, 0, 3.0, 1) and not history.ends(1000, 0, 5.0, 2)
    assert end(history, 1000, 0, 5.1) == pytest.approx(10.0)


def test_where_nothing_visible_is_left_only_a_better_choice_counts() -> None:
    """What is visible is part of the cost of the whole graph."""
    history = History(10.0, offset=9000)
    assert not history.ends(1000, 970, 3.0) and not history.ends(970, 950, 3.9)
    assert end(history, 970, 960, 4.0) == pytest.approx(4.9)
    assert end(History(10.0), 1000, 996, 1.0) > 2.5


def test_it_never_ends_without_a_choice() -> None:
    assert end(History(1.0), math.inf, 0, 0.0) == math.inf


@pytest.mark.slow
def test_a_portfolio_whose_solvers_find_nothing_ends_before_its_time(tmp_path, monkeypatch) -> None:
    solver = rogue_solver(tmp_path, monkeypatch, "time.sleep(1000)")
    monkeypatch.setattr(portfolio, "schedule", lambda n, left: [Entrant(solver, 0.0, left)])
    monkeypatch.setattr(portfolio, "_branch", lambda state, deadline: None)
    graph = hard_graph()
    found = extract(graph, time_limit=20)
    assert found.status == "feasible" and found.cost == check(graph, found.choice)
    assert found.seconds < 20


def test_a_race_is_not_over_before_a_solver_has_begun(tmp_path, monkeypatch) -> None:
    """However long it takes to load, which on a busy machine is seconds."""
    solver = rogue_solver(tmp_path, monkeypatch, "report.bound(2)")
    module = tmp_path / "rogue_solver.py"
    module.write_text("import time\ntime.sleep(2)\n" + module.read_text())
    state = race.State(hard_graph(), integral=True)
    asked: list[tuple[float, int]] = []

    def ends(cost: float, bound: float, worked: float, begun: int) -> bool:
        asked.append((worked, begun))
        return False

    race.race(state, [Entrant(solver, 0.0, 60)], 0, ends)
    assert all(begun == 1 for _, begun in asked) and state.bound == 2
    assert not asked or asked[0][0] < 1, "loading counts as work"


def test_waiting_for_a_core_is_no_work_but_sleeping_is(monkeypatch: pytest.MonkeyPatch) -> None:
    starved = {1: 0.0, 2: 0.0, 3: 0.0}
    monkeypatch.setattr(race, "starved_seconds", starved.__getitem__)
    monkeypatch.setattr(race.os, "cpu_count", lambda: 2)
    clock = race.WorkClock()
    now = clock._last
    clock.tick([1], now + 1)  # asleep or at work
    assert clock.seconds == pytest.approx(1)
    starved[1] = 0.75
    clock.tick([1], now + 2)
    assert clock.seconds == pytest.approx(1.25)
    starved.update({1: 1.25, 2: 0.5, 3: 0.5})  # three on two cores: each waits for the others a third of the time
    clock.tick([1, 2, 3], now + 3.5)
    assert clock.seconds == pytest.approx(2.75)
    clock.tick([], now + 4)  # nobody is at work: all of them still load
    assert clock.seconds == pytest.approx(2.75)


def test_what_the_system_says_of_waiting() -> None:
    assert starved_seconds(os.getpid()) >= 0 == starved_seconds(-1)
