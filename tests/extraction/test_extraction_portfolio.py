"""The portfolio and its workers: whatever a solver does and whenever it ends, the answer is valid."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from eqsat.ground.files import InputError
from extraction import ChoiceGraph, Infeasible, SolverUnavailable, check, exact, extract, portfolio, stopping
from extraction.portfolio import Neighbours
from extraction.stopping import is_over, stop_asked
from tests.command import install, python


def hard_graph(seed: int = 0, layers: int = 12, width: int = 5) -> ChoiceGraph:
    """Layers of classes with much sharing: too much for branch and bound and for greedy."""
    rng = random.Random(seed)
    rows = [[(0, list(range(1, width + 1)))]]
    for layer in range(layers):
        below = range(1 + (layer + 1) * width, 1 + (layer + 2) * width)
        for _ in range(width):
            rows.append(
                [
                    (rng.randint(1, 30), rng.sample(below, rng.randint(1, 3)) if layer < layers - 1 else [])
                    for _ in range(3)
                ]
            )
    return ChoiceGraph.build(rows, [0])


@dataclass(frozen=True)
class Missing:
    """A solver whose library is not installed."""

    def solve(self, graph, report, **more):
        raise ImportError("No module named 'no_such_module'")


@pytest.mark.parametrize("method", ["asp", "portfolio"])
def test_solvers_prove_the_same(method):
    found = extract(hard_graph(), method, time_limit=60)
    assert found.status == "optimal"
    assert found.cost == check(hard_graph(), found.choice) == found.lower_bound
    assert [c for _, c in found.trace] == sorted((c for _, c in found.trace), reverse=True)
    assert found.trace[-1][1] == found.cost
    assert found.cost == 308


def test_never_worse_than_greedy_without_any_time():
    graph = hard_graph()
    assert extract(graph, time_limit=0.01).cost <= extract(graph, "tree_greedy").cost


def test_warm_start_is_kept():
    graph = hard_graph()
    best = extract(graph, "asp", time_limit=60)
    for method in ("dag_greedy", "portfolio"):
        assert extract(graph, method, time_limit=0.01, warm_start=best).cost == best.cost


def test_deterministic_for_a_seed():
    for method in ("dag_greedy", "tree_greedy", "asp"):
        first, second = (extract(hard_graph(1), method, time_limit=60, seed=3) for _ in range(2))
        assert first.choice == second.choice, method


def test_infeasible_is_named():
    loop = ChoiceGraph.build([[(1, [1])], [(1, [0])]], [0])
    for method in ("portfolio", "tree_greedy", "dag_greedy", "asp"):
        with pytest.raises(Infeasible, match="class"):
            extract(loop, method)


def test_unknown_and_missing_extractors_are_named():
    with pytest.raises(InputError, match="dag_greedy"):
        extract(hard_graph(), "no_such_method")
    missing = exact.extractor("mine", Missing())
    with pytest.raises(SolverUnavailable, match="mine: .*no_such_module"):
        missing(hard_graph(), time_limit=10, seed=0, warm_start=None)


@pytest.mark.slow
def test_an_answer_that_is_not_proved_depends_on_the_limit_alone(monkeypatch):
    """Conflicts and neighbourhoods are counted, so that a slow machine answers the same."""
    graph = hard_graph(layers=60, width=30)
    monkeypatch.setattr(portfolio, "CONFLICTS", 0)
    first, second = (extract(graph, time_limit=5) for _ in range(2))
    assert first.status == "feasible" and first.cost < extract(graph, "dag_greedy").cost
    assert first.choice == second.choice
    monkeypatch.setattr(Neighbours, "part", slowly(Neighbours.part))
    assert extract(graph, time_limit=5).choice == first.choice


def slowly(function):
    """The function, a tenth of a second later."""

    def called(*args):
        time.sleep(0.1)
        return function(*args)

    return called


def of_user(directory: Path, script: str) -> dict:
    """Returns the arguments of a process that runs a user's script in a directory, and finds what these tests find."""
    path = directory / "user.py"
    path.write_text(script)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return {"args": [sys.executable, str(path)], "text": True, "cwd": directory, "env": environment}


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_ctrl_c_returns_the_incumbent(tmp_path):
    script = (
        "from extraction import extract, portfolio\n"
        "from tests.extraction.test_extraction_portfolio import hard_graph\n"
        "search = portfolio._search\n"
        "def announced(*a):\n"
        "    print('searching', flush=True)\n"
        "    search(*a)\n"
        "portfolio._search = announced\n"
        "graph = hard_graph(layers=60, width=30)\n"
        "found = extract(graph, time_limit=300)\n"
        "print(found.status, found.interrupted, flush=True)\n"
        "found.unless_interrupted()\n"
    )
    process = subprocess.Popen(**of_user(tmp_path, script), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout.readline().strip() == "searching"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    assert process.stdout.read().strip() == "feasible True"
    assert process.wait() == -signal.SIGINT


def test_ctrl_c_while_clingo_begins_leaves_no_thread_behind(tmp_path):
    """Such a thread aborts the process at its end."""
    script = (
        "import signal, clingo\n"
        "from extraction import extract\n"
        "from tests.extraction.test_extraction_portfolio import hard_graph\n"
        "solve = clingo.Control.solve\n"
        "def interrupted(*a, **k):\n"
        "    handle = solve(*a, **k)\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    return handle\n"
        "clingo.Control.solve = interrupted\n"
        "found = extract(hard_graph(layers=60, width=30), time_limit=300)\n"
        "print(found.status, found.interrupted, flush=True)\n"
    )
    done = subprocess.run(**of_user(tmp_path, script), capture_output=True)
    assert done.stdout.strip() == "feasible True" and done.returncode == 0, done.stderr


def test_entry_points_add_extractors(tmp_path, monkeypatch):
    install(tmp_path, "extraction.extractors", "first = theirs:extract")
    (tmp_path / "theirs.py").write_text(
        "from extraction import Extraction\n"
        "def extract(graph, *, time_limit, seed, warm_start):\n"
        "    return Extraction({0: 0}, 7, 0.0, 'feasible')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert extract(ChoiceGraph.build([[(7, [])]], [0]), "first").cost == 7


def test_the_package_knows_nothing_of_tensors():
    """Of the project it loads what is in the ground, where processes and names are."""
    program = (
        "import extraction, sys; print(*sorted(m for m in sys.modules if m.split('.')[0] in ('eqsat', 'cost_models')))"
    )
    loaded = python("-c", program, check=True).stdout.split()
    assert [m for m in loaded if m not in ("eqsat", "eqsat.ground") and not m.startswith("eqsat.ground.")] == []


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
