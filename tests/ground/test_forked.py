"""Two functions at once give what they give one after the other, whatever happens to the copy of the process."""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from typing import NoReturn

import pytest
import torch

from eqsat.ground import forked
from eqsat.ground.forked import beside

HERE = os.getpid()


def test_two_functions_run_beside_each_other() -> None:
    mine, other = beside(os.getpid, os.getpid)
    assert mine == HERE != other


def test_the_value_and_nothing_else_comes_back() -> None:
    changed: list[int] = []
    _, found = beside(
        list, lambda: (changed.append(1), float(torch.ones(300, 300).matmul(torch.ones(300, 300)).sum()))[1]
    )
    assert found == 300**3 and changed == []


def test_large_values_come_whole() -> None:
    assert len(beside(list, lambda: bytes(30_000_000))[1]) == 30_000_000


def fails() -> NoReturn:
    raise ValueError("no")


@pytest.mark.parametrize("functions", [(list, fails), (fails, lambda: time.sleep(600))])
def test_an_error_is_raised_here_and_ends_the_fork(functions) -> None:
    with pytest.raises(ValueError, match="no"):
        beside(*functions)
    assert not multiprocessing.active_children()


def test_it_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert beside(list, lambda: print("heard", flush=True)) == ([], None)
    assert capfd.readouterr().out == ""


def test_without_forks_both_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert beside(os.getpid, os.getpid) == (HERE, HERE)


@pytest.mark.parametrize("in_fork", [lambda: os._exit(3), lambda: time.sleep(600)], ids=["dead", "standing still"])
def test_what_a_dead_or_hung_fork_was_to_compute_is_computed_here(in_fork, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_POLL", 0.05)
    monkeypatch.setattr(forked, "_IDLE_LOOKS", 4)
    assert beside(lambda: 1, lambda: HERE if os.getpid() == HERE else in_fork()) == (1, HERE)
    assert not multiprocessing.active_children()
