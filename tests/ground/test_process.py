"""Calls in another process: values, messages, limits, deaths, and what is left of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from eqsat.ground.process import Limits, Process, WorkerError


def echo(*args: object) -> list[object]:
    return [*args, os.getpid()]


def loops() -> None:
    while True:
        pass


def starts_a_child() -> int:
    return subprocess.Popen(["sleep", "1000"]).pid


def recursion(depth: int) -> int:
    return 0 if depth == 0 else 1 + recursion(depth - 1)


def deep(depth: int) -> int:
    sys.setrecursionlimit(depth + 100)
    return recursion(depth)


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Process]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    with Process("test") as p:
        yield p


def gone(pid: int) -> bool:
    """Within 10 seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.05)
    return False


def test_values_and_bytes_go_and_come(process: Process) -> None:
    data = bytes(range(256)) * 9000
    sent = [1, -2.5, float("inf"), None, True, "ö\0", {"a": [data, b""], "b": {}}]
    *back, pid = process.call("test_process:echo", *sent)
    assert back == sent and pid != os.getpid()
    assert process.call("test_process:echo") == [pid]
    with pytest.raises(TypeError, match="set"):
        process.call("test_process:echo", {1})
    assert process.call("test_process:echo") == [pid]


@pytest.mark.parametrize(
    ("function", "args", "words"),
    [
        ("builtins:int", ["x"], "ValueError: invalid literal"),
        ("no_such_module:f", [], "ModuleNotFoundError"),
        ("os:no_such_function", [], "AttributeError"),
        ("builtins:object", [], "TypeError: object cannot be sent"),
        ("sys:exit", [3], "SystemExit"),
    ],
)
def test_what_a_function_raises_is_refused_and_the_process_goes_on(
    process: Process, function: str, args: list[object], words: str
) -> None:
    (pid,) = process.call("test_process:echo")
    with pytest.raises(WorkerError, match=words) as e:
        process.call(function, *args)
    assert e.value.refused and not e.value.killed and ":" in e.value.place
    assert process.call("test_process:echo") == [pid]


@pytest.mark.parametrize(
    ("function", "args", "limits", "words"),
    [
        ("time:sleep", [1000], Limits(seconds=0.3), "sleep was stopped at the time limit of 0.3 s"),
        ("builtins:bytearray", [1 << 28], Limits(mib=100), "memory limit: .* MiB of 100"),
        ("signal:raise_signal", [9], Limits(), r"died in raise_signal \(signal 9\)"),
        ("os:_exit", [7], Limits(), "exit code 7"),
        ("os:abort", [], Limits(), "signal 6"),
    ],
)
def test_a_call_that_passes_a_limit_or_dies_is_lost_alone(
    process: Process, function: str, args: list[object], limits: Limits, words: str
) -> None:
    with pytest.raises(WorkerError, match=words) as e:
        process.call(function, *args, limits=limits)
    assert not e.value.refused and e.value.killed == ("signal 9" in words)
    assert e.value.stopped == (limits != Limits())
    assert len(process.call("test_process:echo")) == 1


def test_deep_recursion_has_a_stack(process: Process) -> None:
    assert process.call("test_process:deep", 20_000) == 20_000


def test_a_call_ends_when_another_thread_kills_it(process: Process) -> None:
    process.start()
    threading.Timer(0.3, process.kill).start()
    with pytest.raises(WorkerError, match="signal 9"):
        process.call("time:sleep", 1000)


def test_what_a_function_started_ends_with_its_process(process: Process) -> None:
    child = process.call("test_process:starts_a_child")
    assert psutil.pid_exists(child)
    process.close()
    assert gone(child)


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_caller_that_is_killed(process: Process, end: int) -> None:
    """Also not a process that is busy."""
    script = (
        "import threading, time\nfrom eqsat.ground.process import Process\np = Process('test')\n"
        "print(p.call('test_process:echo')[0], flush=True)\np.call('test_process:loops')\n"
    )
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, str(Path(__file__).parent)])
    caller = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert caller.stdout
    pid = int(caller.stdout.readline())
    caller.send_signal(end)
    caller.wait()
    assert gone(pid)


def test_ctrl_c_reaches_the_caller_alone(process: Process) -> None:
    (pid,) = process.call("test_process:echo")
    assert os.getpgid(pid) != os.getpgid(0)
    os.kill(pid, signal.SIGINT)
    assert process.call("test_process:echo") == [pid]
