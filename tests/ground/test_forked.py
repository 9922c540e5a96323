"""A copy of the process gives the value, an error or the news of its death, and leaves this one as it was."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import time
from typing import NoReturn

import pytest
import torch

from eqsat.ground import forked
from eqsat.ground.forked import Forked, ForkError, beside


def test_the_value_and_nothing_else_comes_back() -> None:
    changed: list[int] = []
    with Forked(lambda: (changed.append(1), float(torch.ones(300, 300).matmul(torch.ones(300, 300)).sum()))[1]) as copy:
        assert copy.result() == 300**3
    assert changed == []


def test_large_values_come_whole() -> None:
    with Forked(lambda: bytes(30_000_000)) as copy:
        assert len(copy.result()) == 30_000_000


def test_an_error_is_raised_here() -> None:
    def fails() -> NoReturn:
        raise ValueError("no")

    with Forked(fails) as copy, pytest.raises(ValueError, match="no"):
        copy.result()


def test_a_death_is_told() -> None:
    with Forked(lambda: os.kill(os.getpid(), signal.SIGKILL)) as copy, pytest.raises(ForkError, match="-9"):
        copy.result()


def test_a_copy_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forked, "_POLL", 0.05)
    monkeypatch.setattr(forked, "_IDLE_LOOKS", 4)
    with Forked(lambda: time.sleep(600)) as copy:
        with pytest.raises(ForkError, match="stands still"):
            copy.result()
        process = copy._process.pid
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)


def test_it_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with Forked(lambda: print("heard", flush=True)) as copy:
        assert copy.result() is None
    assert capfd.readouterr().out == ""


def test_two_functions_run_beside_each_other() -> None:
    mine, other = beside(os.getpid, os.getpid)
    assert mine == os.getpid() != other


def test_without_forks_both_run_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert beside(os.getpid, os.getpid) == (os.getpid(), os.getpid())


def test_what_a_dead_fork_was_to_compute_is_computed_here() -> None:
    here = os.getpid()
    assert beside(lambda: 1, lambda: os.getpid() if os.getpid() == here else os._exit(3)) == (1, here)


def test_a_function_that_raises_here_ends_the_fork() -> None:
    def fails() -> NoReturn:
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        beside(fails, lambda: time.sleep(600))
    assert not multiprocessing.active_children()
