"""A task's process: limits, deaths, and what the next task sees of them."""

import os
from collections.abc import Iterator

import pytest

from eqsat.bench import isolated
from eqsat.bench.isolated import attempt
from eqsat.ground.process import Limits

WIDE = Limits(60, 4096)


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    with isolated.threads(1):
        yield
    assert not isolated._live


def test_values_and_errors_come_back_and_the_process_is_kept() -> None:
    first = attempt("os:getpid", (), WIDE)
    assert first.value != os.getpid() and first.peak_mib > 0 and not first.error
    assert attempt("os:getpid", (), WIDE).value == first.value
    failed = attempt("builtins:int", ("x",), WIDE)
    assert failed.error.startswith("ValueError: invalid literal") and not failed.lost
    other = attempt("os:getpid", (), WIDE)
    assert other.value != first.value, "another function had a process of its own in between"


def test_what_may_not_be_the_tasks_own_error_is_lost() -> None:
    assert attempt("time:sleep", (60,), Limits(0.3)).lost
    assert attempt("builtins:int", (object(),), WIDE).lost, "an argument that cannot be sent"
