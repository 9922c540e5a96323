"""Workers that are killed, and machinery that fails inside the optimizer."""

from __future__ import annotations

import threading
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np

from eqsat.egraph.engine import Budget
from eqsat.ground.files import PluginError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import Result, optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from eqsat.tosa.reference import compare
from extraction import ChoiceGraph, SolverUnavailable, check, extract
from tests.drills import TARGET, DrillOutcome, drill
from tests.drills import saboteurs as s
from tests.fuzzing.corpus import finish
from tests.fuzzing.formats import transposes
from tests.planted import ASSOCIATED, RAISES, RETYPED, SWAPPED

_TARGET = Target.of(TARGET)


def _options(place: Path, **more: object) -> Options:
    return Options(time_limit=2, cache=place / "prices", **more)


def describe(r: Result) -> str:
    said = f"; warning: {r.warnings[0][:160]}" if r.warnings else "; no warning"
    before = "not compiled" if r.explicit_cycles is None else f"{r.explicit_cycles:,}"
    return f"{r.chosen}'s graph, {r.cycles:,} cycles (before: {before}), verified{said}"


def _sound(graph: TensorGraph, r: Result) -> bool:
    with Pool(1) as pool:
        unpriced = r.explicit_cycles is None  # its worker was killed
        return (
            r.verified
            and (unpriced or r.cycles <= r.explicit_cycles)
            and compare(graph, loads(r.tosa), pool, seed=7).equal
        )


def optimized(place: Path, graph: TensorGraph | None = None, **more: object) -> tuple[bool, Result]:
    graph = graph or transposes()
    result = optimize_tosa(dumps(graph), _TARGET, options=_options(place, **more))
    return _sound(graph, result), result


@drill(
    "worker killed mid-probe",
    "all Vela workers are stopped while they measure candidates, then killed",
    "the same result as undisturbed",
)
def mid_probe(place: Path) -> DrillOutcome:
    s.KillsProbes.killed = 0
    sound, result = optimized(place, cost_model="tests.drills.saboteurs:KillsProbes")
    return (
        sound and s.KillsProbes.killed > 0 and result.chosen == "eqsat",
        f"{s.KillsProbes.killed} workers killed; {describe(result)}",
    )


@drill(
    "worker killed mid-compile",
    "the first Vela worker is killed while it compiles the whole graph",
    "the same result as undisturbed",
)
def mid_compile(place: Path) -> DrillOutcome:
    with s.Killer("eqsat.ground.worker") as killer:
        sound, result = optimized(place)
    return (
        sound and killer.killed == 1 and result.chosen == "eqsat",
        f"{killer.killed} worker killed; {describe(result)}",
    )


@drill(
    "workers killed whenever they start",
    "the first 40 Vela workers are killed as they come",
    "a named error or a sound result, soon",
)
def always_killed(place: Path) -> DrillOutcome:
    from eqsat.ground.process import WorkerError

    with s.Killer("eqsat.ground.worker", 40) as killer:
        try:
            sound, result = optimized(place)
        except WorkerError as e:
            return killer.killed >= 2, f"WorkerError: {e}"
    return sound and killer.killed >= 2, describe(result)


def hard_graph(classes: int = 120, seed: int = 0) -> ChoiceGraph:
    """Much sharing, close prices: greedy is wrong and a proof takes a while."""
    rng = np.random.default_rng(seed)
    rows = []
    for c in range(classes):
        later = range(c + 1, min(classes, c + 14))
        rows.append(
            [
                (int(rng.integers(5, 40)), [int(x) for x in rng.choice(later, min(len(later), 3), replace=False)])
                for _ in range(4)
            ]
        )
    return ChoiceGraph.build(rows, [0, 1, 2])


@drill(
    "solver killed mid-solve",
    "a solver is killed while it is at work on a hard choice graph",
    "a valid choice, no worse than the greedy one, or an error that says how the solver died",
)
def mid_solve(place: Path) -> DrillOutcome:
    graph = hard_graph()
    greedy = extract(graph, "dag_greedy").cost
    with s.Killer("extraction.", 6) as killer:
        try:
            found = extract(graph, "ilp", time_limit=4)
        except SolverUnavailable as e:
            return killer.killed > 0 and "signal 9" in str(e), str(e)
    cost = check(graph, found.choice)
    return killer.killed > 0 and cost <= greedy, f"{killer.killed} killed; cost {cost:g}, greedy {greedy:g}"


# ---- the engine -----------------------------------------------------------------------------------


def steps_back(place: Path, **more: object) -> DrillOutcome:
    sound, result = optimized(place, **more)
    return sound and result.chosen == "explicit" and bool(result.warnings), describe(result)


def _is_blamed(place: Path, **more: object) -> DrillOutcome:
    try:
        _, result = optimized(place, **more)
    except PluginError as e:
        return ".py:" in str(e), str(e)
    return False, describe(result)


@drill(
    "an extern raises",
    "a user's rule asks a Python function that divides by zero",
    "an error that names the rule and the line",
)
def extern_raises(place: Path) -> DrillOutcome:
    return _is_blamed(place, rules=(RAISES,))


@drill("egglog panics", "a user's rule gives a class two types", "the graph as it was, and a warning")
def panics(place: Path) -> DrillOutcome:
    return steps_back(place, rules=(RETYPED,))


@drill("a cost model fails", "a user's cost model raises", "an error that names the model and the line")
def cost_model_raises(place: Path) -> DrillOutcome:
    return _is_blamed(place, cost_model="tests.drills.saboteurs:Raises")


def sums(n: int) -> TensorGraph:
    g = TensorGraph()
    x = g.add_input("x0", (1, 4, 4, 8), "INT32")
    y = x
    for i in range(1, n):
        y = g.add("add", (y, g.add_input(f"x{i}", (1, 4, 4, 8), "INT32")))
    return finish(
        g,
        g.add_with("rescale", (y,), makers.rescale("INT8", 1 << 30, 36)),
    )


@drill(
    "saturation explodes",
    "14 additions with commutativity and associativity, 14! orders and more",
    "stopped by the budget; a sound result",
)
def explodes(place: Path) -> DrillOutcome:
    sound, result = optimized(place, sums(14), rules=(SWAPPED, ASSOCIATED), budget=Budget(nodes=5000, seconds=5))
    return sound and result.stop in (
        "node limit",
        "time limit",
    ), f"{result.stop} at {result.e_nodes:,} e-nodes; {describe(result)}"


# ---- threads --------------------------------------------------------------------------------------


@drill(
    "optimizations in threads of one process",
    "three threads optimize different graphs at once",
    "each gets what it gets alone",
)
def threads(place: Path) -> DrillOutcome:
    made = [transposes(), sums(3), sums(5)]
    alone = [optimize_tosa(dumps(g), _TARGET, options=_options(place)) for g in made]
    found: dict[int, Result] = {}

    def work(i: int) -> None:
        found[i] = optimize_tosa(dumps(made[i]), _TARGET, options=replace(_options(place), cache=place / f"own{i}"))

    running = [threading.Thread(target=work, args=(i,)) for i in range(len(made))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for t in running:
            t.start()
        for t in running:
            t.join()
    same = sum(i in found and found[i].tosa == a.tosa for i, a in enumerate(alone))
    return same == len(made) and all(
        _sound(g, found[i]) for i, g in enumerate(made)
    ), f"{same} of {len(made)} results equal to those alone"
