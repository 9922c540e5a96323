"""A task's process: limits, deaths, and what the next task sees of them."""

import os

import pytest

from eqsat.bench import isolated
from eqsat.bench.isolated import call
from eqsat.ground.process import Limits, WorkerError

WIDE = Limits(60, 4096)


def test_values_and_errors_come_back_and_the_process_is_kept():
    first, peak = call("os:getpid", (), WIDE)
    assert first != os.getpid() and peak > 0
    assert call("os:getpid", (), WIDE)[0] == first
    with pytest.raises(WorkerError, match="ValueError.*invalid literal") as e:
        call("builtins:int", ("x",), WIDE)
    assert e.value.refused
    other, _ = call("os:getpid", (), WIDE)
    assert other != first  # another function had a process of its own in between


def test_nothing_outlives_the_caller():
    call("os:getpid", (), WIDE)
    isolated.close_all()
    assert not isolated._live
