"""One cell of the benchmark: all cost models on the sample of one network on one target."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import cost_models
from benchmarks.cost_models.metrics import compare
from benchmarks.cost_models.sample import draw, saturated
from cost_models.cache import PriceCache
from eqsat.choice import choice
from eqsat.egraph.encoding import Frozen
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.vela.compile import compile_graph
from tests.unit_graph import total


@dataclass(slots=True)
class Cell:
    """The sample of one delegate of a model on one target, and all predictions.

    wanted: number of graphs that were asked for.
    e_nodes, stop: size of the e-graph, and why saturation stopped.
    how: how each graph was drawn (`Sample.how`).
    truth: Vela's total of each graph, in cycles.
    points: {cost model: predictions in the order of `truth`}.
    in_cycles: {cost model: whether it predicts cycles}.
    ms_first: {cost model: milliseconds per prediction of a first instance}.
    ms: {cost model: milliseconds per prediction of a second one, with the prices of the first in the cache}.
    price_seconds: {cost model: seconds for the prices of the whole e-graph, the first time and again}.
    """

    model: str
    target: str
    wanted: int
    e_nodes: int
    stop: str
    how: list[str]
    truth: list[float]
    points: dict[str, list[float]]
    in_cycles: dict[str, bool]
    ms: dict[str, float]
    ms_first: dict[str, float]
    price_seconds: dict[str, tuple[float, float]]

    def records(self) -> list[dict]:
        """Returns a record per cost model.

        ms, ms_first: as in the cell.
        price_cold_s, price_warm_s: the two of `price_seconds`.
        """
        base = {
            "model": self.model,
            "target": self.target,
            "samples": len(self.truth),
            "wanted": self.wanted,
            "distinct_totals": len(set(self.truth)),
            "e_nodes": self.e_nodes,
            "best": min(self.truth),
            "worst": max(self.truth),
        }
        return [
            {
                **base,
                "cost_model": name,
                **compare(self.truth, p, self.in_cycles[name]),
                "ms": self.ms[name],
                "ms_first": self.ms_first[name],
                **dict(zip(("price_cold_s", "price_warm_s"), self.price_seconds.get(name, ()))),
            }
            for name, p in self.points.items()
        ]

    def as_dict(self) -> dict:
        return asdict(self)


def label(name: str) -> str:
    """Returns the name of a cost model in tables: the class without its module."""
    return name.rpartition(":")[2]


def run_cell(
    model: str, explicit: bytes, target: Target, wanted: int, names: Sequence[str], pool: Pool, progress=lambda _: None
) -> Cell | None:
    """Returns the cell of one graph, None if Vela takes no graph of the sample.

    Prices start from nothing, since the cell has a cache of its own.
    """
    progress("saturating")
    frozen = saturated(explicit)
    with tempfile.TemporaryDirectory() as d:
        cache = PriceCache(Path(d) / "store.sqlite")
        try:
            _vela(frozen.source, target, pool)  # This starts the workers.
            seconds = {label(n): _price_seconds(frozen, n, target, pool, cache) for n in names}
            progress("drawing graphs")
            sample = draw(frozen, cost_models.find(cost_models.DEFAULT)(target, pool, cache), wanted)
            progress(f"compiling {len(sample)} graphs")
            truth = pool.map(lambda s: _vela(s.graph, target, pool), sample)
            taken = [(s, t) for s, t in zip(sample, truth, strict=True) if t < math.inf]
            if not taken:
                return None
            size, stop = frozen.n_nodes, frozen.saturation.stop
            how, totals, graphs = ([*c] for c in zip(*((s.how, t, s.graph) for s, t in taken), strict=True))
            cell = Cell(model, target.accelerator, wanted, size, stop, how, totals, {}, {}, {}, {}, seconds)
            for name in names:
                progress(f"{name} on {len(graphs)} graphs")
                make, key = cost_models.find(name), label(name)
                cell.ms_first[key], _ = _timed(make(target, pool, cache), graphs)
                one = make(target, pool, cache)
                cell.ms[key], cell.points[key] = _timed(one, graphs)
                cell.in_cycles[key] = one.in_cycles
            return cell
        finally:
            cache.close()


def _vela(graph: TensorGraph, target: Target, pool: Pool) -> float:
    """Returns Vela's corrected total of a graph, inf if Vela refuses it."""
    try:
        return float(compile_graph(graph, target, pool).corrected)
    except WorkerError:
        return math.inf


def _timed(model, graphs: Sequence[TensorGraph]) -> tuple[float, list[float]]:
    """Returns the milliseconds per graph, and the totals of all graphs."""
    started = time.perf_counter()
    points = [float(total(model, g)) for g in graphs]
    return (time.perf_counter() - started) * 1e3 / len(graphs), points


def _price_seconds(frozen: Frozen, name: str, target: Target, pool: Pool, cache: PriceCache) -> tuple[float, float]:
    """Returns the seconds that a cost model takes for the prices of an e-graph, the first time and again."""
    out: list[float] = []
    for _ in range(2):
        model = cost_models.find(name)(target, pool, cache)
        model.price = _clocked(model.price, out)
        choice.build(frozen, model)
    return out[0], out[1]


def _clocked(function: Callable, seconds: list[float]) -> Callable:
    """Returns a function that also appends its seconds to a list."""

    def call(*args):
        started = time.perf_counter()
        result = function(*args)
        seconds.append(time.perf_counter() - started)
        return result

    return call
