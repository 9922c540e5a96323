"""Extractions end early where their caller wants no more, with a valid choice."""

from __future__ import annotations

import threading

import pytest

from extraction import check, extract, stopping
from extraction.stopping import is_over, stop_asked
from tests.extraction.test_extraction_portfolio import hard_graph

LONG = 600.0


@pytest.mark.parametrize("method", ["portfolio", "dag_greedy", "asp"])
def test_an_extraction_that_begins_after_it_is_done_at_once(method: str) -> None:
    graph = hard_graph(layers=60, width=30)
    with stopping(lambda: True):
        found = extract(graph, method, time_limit=LONG)
    assert found.cost == check(graph, found.choice) and found.status == "feasible" and not found.interrupted
    assert found.seconds < LONG / 4


@pytest.mark.slow
def test_a_race_under_way_is_ended() -> None:
    graph, asked = hard_graph(layers=60, width=30), threading.Event()
    timer = threading.Timer(1, asked.set)
    timer.start()
    with stopping(asked.is_set):
        found = extract(graph, time_limit=LONG)
    timer.join()
    assert found.cost == check(graph, found.choice) and found.status == "feasible"
    assert found.seconds < LONG / 4


def test_it_counts_within_and_for_this_thread_only() -> None:
    seen: list[bool] = []
    with stopping(lambda: True):
        assert stop_asked() and is_over(float("inf"))
        thread = threading.Thread(target=lambda: seen.append(stop_asked()))
        thread.start()
        thread.join()
    assert seen == [False] and not stop_asked() and not is_over(float("inf")) and is_over(0.0)
