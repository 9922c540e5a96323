"""What goes wrong in a worker is an error of one request, and the next request works."""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from eqsat.ground import worker
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.compile import compile_tosa
from tests.graphs import U85, compile_graph, conv_graph
from tests.reference import run_reference
from tests.term import inputs, outputs


@pytest.fixture
def own() -> Iterator[Worker]:
    with Worker() as w:
        yield w


def ones(graph: TensorGraph) -> list[np.ndarray]:
    return [np.ones(graph.nodes[i].shape, np.int8) for i in graph.inputs]


def chain(n: int) -> TensorGraph:
    """n clamps in a row, no two alike in a row."""
    (y,) = inputs("x:INT8[1,2,2,16]")
    for k in range(n):
        y = y.relu(-128 + k % 100)
    return outputs(y)


def test_a_refusal_leaves_the_worker_running(own: Worker) -> None:
    cycles = compile_graph(conv_graph(), U85, own).cycles
    process = own._process
    for garbage in (b"", b"nonsense" * 9, dumps(conv_graph())[:300]):
        with pytest.raises(WorkerError) as e:
            compile_tosa(garbage, U85, own)
        assert e.value.refused
    with pytest.raises(WorkerError) as e:
        run_reference(dumps(conv_graph()), [], own)
    assert e.value.refused
    with pytest.raises(WorkerError, match="no-such") as e:
        compile_graph(conv_graph(), Target("ethos-u85-256", (*U85.flags, "--no-such-flag")), own)
    assert e.value.refused
    assert compile_graph(conv_graph(), U85, own).cycles == cycles
    assert own._process is process


def test_a_timeout_kills_the_request(own: Worker) -> None:
    """Here the worker does not even take the request, which no longer fits the pipe."""
    compile_graph(conv_graph(), U85, own)
    process = own._process
    os.kill(process.pid, signal.SIGSTOP)
    os.waitpid(process.pid, os.WUNTRACED)  # until it has stopped
    with pytest.raises(WorkerError, match="time limit") as e:
        compile_tosa(dumps(conv_graph()) + bytes(1 << 22), U85, own, timeout=0.3)
    assert not e.value.refused
    assert process.poll() == -signal.SIGKILL
    assert compile_graph(conv_graph(), U85, own).cycles > 0


@pytest.mark.slow
def test_deep_graphs_compile_and_run(own: Worker) -> None:
    graph = chain(3000)
    process = own.start()
    assert compile_graph(graph, U85, own).cycles > 0
    (y,) = run_reference(dumps(graph), ones(graph), own)
    assert np.array_equal(y, graph.evaluate(ones(graph))[0])
    assert own._process is process


def test_a_pool_works_in_parallel_and_the_next_one_has_its_workers() -> None:
    with Pool(2) as pool:
        totals = pool.map(lambda n: compile_graph(chain(n), U85, pool).cycles, [1, 2, 1, 2])
        processes = {w._worker._process for w in pool._all if w._worker._process}
        assert totals[:2] == totals[2:]
        with pytest.raises(WorkerError):
            pool.map(lambda b: compile_tosa(b, U85, pool), [dumps(chain(1)), b"bad"])
    with Pool(2) as later:
        assert processes and processes <= {w._worker._process for w in later._all}
        assert compile_graph(chain(1), U85, later).cycles == totals[0]


def test_in_another_environment_workers_are_new(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A place of temporary files may be gone."""
    with Pool(1) as pool:
        assert pool.call(tempfile.gettempdir, limits=Limits()) != str(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with Pool(1) as later:
        assert later.call(tempfile.gettempdir, limits=Limits()) == str(tmp_path)
    assert not pool._all[0]._worker.runs


def test_idle_workers_are_few_small_and_end_with_the_process(own: Worker) -> None:
    spare = worker._Spare()
    spare.give(own)
    assert spare._workers == [], "it has not been started"
    process = own.start()
    spare.give(own)
    assert spare._workers == [own]
    spare.close()
    assert spare._workers == [] and process.poll() == -signal.SIGKILL
    compile_graph(conv_graph(), U85, own)
    assert 0 < own.resident_mib() < worker._SPARE_MIB
    large = own.call("tests.ground.test_worker:hold", 600)
    assert large == 600
    spare.give(own)
    assert spare._workers == [] and not own.runs


def test_a_fork_has_workers_of_its_own() -> None:
    with Pool(1) as pool:
        assert pool.call(math.factorial, 5, limits=Limits()) == 120
    (kept,) = [w for w in worker._SPARE._workers if w is pool._all[0]._worker]
    fork = multiprocessing.get_context("fork")
    found = fork.SimpleQueue()
    child = fork.Process(target=lambda: found.put(len(worker._SPARE._workers)))
    child.start()
    child.join()
    assert found.get() == 0 and kept.runs


def hold(mib: int) -> int:
    """Holds as much memory until the process ends."""
    hold.kept = np.ones(mib << 20, np.int8)  # type: ignore[attr-defined]
    return mib


def test_a_worker_at_work_is_ended_with_its_pool() -> None:
    pool = Pool(2)
    asleep = pool.start(partial(pool.call, time.sleep, 60, limits=Limits()))
    while pool._idle.qsize() == 2:
        time.sleep(0.01)
    idle = pool._idle.get()
    pool._idle.put(idle)
    (busy,) = [w._worker for w in pool._all if w is not idle]
    while not (process := busy._process):
        time.sleep(0.01)
    pool.close()
    with pytest.raises(WorkerError):
        asleep.result()
    assert process.poll() == -signal.SIGKILL and busy not in worker._SPARE._workers


def test_an_ended_worker_begins_no_call() -> None:
    """As one whose pool is closed between the moment a thread takes it and the call."""
    with Worker() as w:
        assert w.call(abs, -3) == 3
        w.end()
        with pytest.raises(WorkerError) as e:
            w.call(time.sleep, 60)
        assert e.value.killed


def test_only_the_calls_of_a_checked_pool_are_checked() -> None:
    class Stop(Exception):
        pass

    def stop() -> None:
        raise Stop

    buffer = dumps(chain(1))
    with Pool(1) as pool:
        checked = pool.with_check(stop)
        with pytest.raises(Stop):
            compile_tosa(buffer, U85, checked)
        with pytest.raises(Stop):
            checked.map(lambda b: compile_tosa(b, U85, checked), [buffer])
        assert pool.start(compile_tosa, buffer, U85, pool).result().cycles > 0


def remember(x: int) -> list[int]:
    """Adds a number to those of earlier calls in this process."""
    remember.known = [*getattr(remember, "known", []), x]  # type: ignore[attr-defined]
    return remember.known  # type: ignore[attr-defined,no-any-return]


def forget() -> None:
    remember.known = []  # type: ignore[attr-defined]


def test_a_reserved_worker_remembers_until_its_pool_is_closed() -> None:
    with Pool(1) as pool:
        reserved = pool.reserve(forget)
        assert reserved.call(remember, 1, limits=Limits()) == [1]
        assert pool.call(remember, 5, limits=Limits()) == [5], "another process"
        assert reserved.call(remember, 2, limits=Limits()) == [1, 2]
        kept = reserved._worker
    assert kept in worker._SPARE._workers and kept.call(remember, 3) == [3]
    with pytest.raises(WorkerError, match="gone"):
        reserved.call(remember, 4, limits=Limits())


def test_a_reserved_worker_at_work_is_ended_with_its_pool() -> None:
    with Pool(1) as pool:
        reserved = pool.reserve(forget)
        asleep = pool.start(partial(reserved.call, time.sleep, 60, limits=Limits()))
        while not (reserved._lock.locked() and reserved._worker.runs):
            time.sleep(0.01)
    with pytest.raises(WorkerError):
        asleep.result()
    assert not reserved._worker.runs and reserved._worker not in worker._SPARE._workers


def is_imported(module: str) -> bool:
    return module in sys.modules


def test_workers_that_were_begun_are_those_of_the_next_pool() -> None:
    worker.begin_workers(("no_such_module", "tabnanny"))
    worker.begin_workers(("tabnanny",))
    begun = list(worker._SPARE._workers)
    assert len(begun) >= 2 and all(w.runs for w in begun)
    until = time.monotonic() + 60
    while not all(w.call(is_imported, "tabnanny") for w in begun) and time.monotonic() < until:
        time.sleep(0.01)
    with Pool() as pool:
        assert {w._worker for w in pool._all} < set(begun)
        assert pool.call(is_imported, "tabnanny", limits=Limits())
