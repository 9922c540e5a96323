"""A trial of one graph: its e-graph is checked, and extractions are compared with it.

The comparison runs on the TOSA reference model.
All extractions are greedy: one by `Bytes`, the others by random prices.
So e-nodes are extracted that no sensible price would select.
A share of the graphs also goes through the full optimizer, with Vela's prices.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from eqsat.checking.soundness import Unsound, check
from eqsat.choice import choice
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.rule import Rule
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.samples import domains, samples
from eqsat.tensor.types import GraphError
from eqsat.tosa.flatbuffer import dumps, loads
from eqsat.tosa.reference import run_reference
from eqsat.vela.compile import compile_tosa
from eqsat.vela.guards import broken
from extraction import ExtractionError, Infeasible, tree_greedy
from tests.random_prices import Bytes

#: Limits of each e-graph, since random graphs grow faster than networks.
#: A truncated e-graph is checked as well.
BUDGET = Budget(nodes=1200, seconds=10.0)
#: Numbers of the samples (`eqsat/tensor/samples.py`): all low, limits and neighbours, random.
_SAMPLES = (0, 2, 3)


@dataclass(slots=True)
class TrialRecord:
    """The result of one trial.

    ops: names of the operators. evaluated: e-nodes proved or compared. stop: why saturation ended.
    extracted: number of different extractions.
    refused: extractions that the cost model, a guard or Vela refuses, with the reason.
    vela: whether Vela accepts the source graph.
    optimized: the graph that the full optimizer chose, "" if it did not run.
    rules: names of the rules that fired. failures: descriptions, empty if all is well.
    seconds: wall-clock time of the trial.
    """

    seed: int
    target: str
    operators: int
    ops: list[str] = field(default_factory=list)
    e_nodes: int = 0
    evaluated: int = 0
    stop: str = ""
    extracted: int = 0
    refused: list[str] = field(default_factory=list)
    vela: bool = False
    optimized: str = ""
    rules: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def run(
    graph: TensorGraph,
    seed: int,
    target: Target,
    pool: Pool,
    rules: Sequence[Rule],
    *,
    random: int = 3,
    full: bool = False,
    budget: Budget = BUDGET,
) -> TrialRecord:
    """Runs a trial of `graph`.

    seed: of the random prices and samples. random: number of extractions by random prices.
    full: whether the full optimizer runs too, with Vela's prices.
    """
    started = time.perf_counter()
    counts = graph.op_counts()
    out = TrialRecord(seed, target.accelerator, sum(counts.values()), list(counts))
    try:
        checked = check(graph, rules, budget=budget)
        out.e_nodes, out.evaluated, out.stop = checked.frozen.n_nodes, checked.evaluated, checked.frozen.saturation.stop
        out.rules = sorted(checked.frozen.saturation.matches)
        rng = np.random.default_rng(seed)
        choices = choice.build(checked.frozen, Bytes(target, rng))
        buffers: dict[bytes, str] = {}
        for k in range(1 + random):
            plan = (
                choices.graph
                if k == 0
                else replace(choices.graph, cost=rng.exponential(1.0, choices.graph.n_nodes), pair_costs={})
            )
            try:
                selection = tree_greedy.extract(plan).choice
            except Infeasible:  # the target's guards forbid the source graph itself
                out.refused.append("no legal extraction")
                choices = choice.build(checked.frozen, Bytes(Target.of("ethos-u85-256"), rng))
                try:
                    selection = tree_greedy.extract(choices.graph).choice
                except (
                    Infeasible
                ):  # every target's guards forbid it, and the budget ended before another form was found
                    break
            found, _ = choices.tensor_graph(selection)
            if wrong := broken(found, graph, target.family):
                out.refused.append(f"guard: {wrong[0]}")
            buffers.setdefault(dumps(found), f"extraction {k}")
        out.extracted = len(buffers)
        _compare(graph, buffers, pool, out)
        _vela(graph, buffers, target, pool, full, rules, out)
    except (Unsound, EngineError, GraphError, ExtractionError) as e:
        out.failures.append(f"{type(e).__name__}: {e}")
    out.seconds = round(time.perf_counter() - started, 3)
    return out


def _compare(graph: TensorGraph, buffers: dict[bytes, str], pool: Pool, out: TrialRecord) -> None:
    """Compares every extraction, written and read again, with the source graph.

    Their signatures must be equal, and so must their outputs on the reference model.
    """
    source = dumps(graph)
    same = {b: loads(b).signature() == graph.signature() for b in buffers}
    out.failures += [f"{buffers[b]} changes the signature" for b, equal in same.items() if not equal]
    drawn = samples(domains(graph), max(_SAMPLES) + 1, out.seed)
    for k in _SAMPLES:
        try:
            want = run_reference(source, drawn[k], pool)
        except WorkerError as e:
            out.failures.append(f"the reference model refuses the source graph: {e}")
            return
        for x, y in zip(want, graph.evaluate(drawn[k]), strict=True):
            if not np.array_equal(x, y):
                out.failures.append("numpy and the reference model differ on the source graph")
        for buffer, name in buffers.items():
            try:
                got = run_reference(buffer, drawn[k], pool)
            except WorkerError as e:
                out.failures.append(f"the reference model refuses {name}: {e}")
                continue
            if not all(np.array_equal(x, y) for x, y in zip(want, got, strict=True)):
                out.failures.append(f"{name} differs on the reference model")


def _vela(
    graph: TensorGraph,
    buffers: dict[bytes, str],
    target: Target,
    pool: Pool,
    full: bool,
    rules: Sequence[Rule],
    out: TrialRecord,
) -> None:
    """Compiles the source and the first extraction, and runs the full optimizer if asked to."""
    source = dumps(graph)
    try:
        compile_tosa(source, target, pool)
    except WorkerError:
        return
    out.vela = True
    try:
        compile_tosa(next(iter(buffers)), target, pool)
    except WorkerError as e:
        out.refused.append(f"Vela: {e}")
    if full:
        options = Options(preset="none", rules=tuple(rules), budget=BUDGET, extractor="dag_greedy", rounds=2, trials=4)
        result = optimize_tosa(source, target, options=options)
        out.optimized = result.chosen
        wrong = [w for w in result.warnings if "differs" in w or "reference model" in w or "guard" in w]
        out.failures += [f"the optimizer: {w}" for w in wrong]
