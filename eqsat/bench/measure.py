"""The figures of one cell, from the graphs at the hook point; those of stock also in its best settings of Vela."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from typing import Any, TypeVar

from eqsat.bench.cells import BEST, EQSAT, EXPLICIT, STOCK, Configuration
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.decision import Container
from eqsat.search.figures import GraphFigures, count_cycles
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.proposals.settings import arena_sizes, may_choose
from eqsat.search.recall import StockError
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import Estimate, compile_tosa
from eqsat.vela.facts import version as vela_version
from eqsat.vela.roofline import Bound, bound, by_operator, over_bound
from eqsat.vela.table import Row

_E = TypeVar("_E", bound=Estimate)


def in_best_settings(
    target: Target, compiled: Callable[[Target], _E], cycles: Callable[[_E, Target], int] = count_cycles
) -> tuple[_E, tuple[str, ...]]:
    """Returns the estimate in the best settings of Vela, and these settings.

    The best is first by calibrated cycles, then by SRAM, and needs no more SRAM than without settings.
    Sizes of the arena are tried by halving, then the objective of size. Raises what `compiled` raises without settings.
    compiled: returns the estimate for a target. cycles: returns its calibrated cycles.
    """
    first = best = compiled(target)
    settings: tuple[str, ...] = ()

    def rank(estimate: _E) -> tuple[int, int]:
        return cycles(estimate, target), estimate.sram_peak

    def try_setting(setting: str) -> bool:
        """Compiles with a setting, and keeps it if it is no worse; returns whether it does."""
        nonlocal best, settings
        if not may_choose(setting, target):
            return False
        try:
            found = compiled(target.with_flags((setting,)))
        except WorkerError:
            return False
        same = found.stream == first.stream  # it only looks cheaper, if at all
        if same or found.sram_peak > first.sram_peak or rank(found) > rank(best):
            return False
        best, settings = found, (setting,)
        return True

    sizes = arena_sizes(first)
    while sizes:
        middle = len(sizes) // 2
        smaller = try_setting(f"--arena-cache-size={sizes[middle]}")
        sizes = sizes[:middle] if smaller else sizes[middle + 1 :]
    try_setting("--optimise=Size")
    return best, settings


Fields = dict[str, Any]

#: Fields that the record of several delegates lists for each.
_LISTED = (
    *("stop", "chosen", "extractions", "coverage", "warnings", "deviation", "points", "passed_over", "undecided"),
    *("settings", "binary_verified", "binary_reason", "binary_proved", "binary_undecided"),
    *("stock_binary_verified", "stock_binary_proved", "stock_binary_undecided"),
)


def measure(
    name: str, flags: list[str], files: dict[str, bytes], side: Fields
) -> tuple[Fields, dict[str, bytes], list[list[dict[str, Any]]]]:
    """Measures a configuration by its name.

    Returns (fields of the record, graph that Vela compiled per delegate, its table per delegate).
    Raises RuntimeError if stock has no graph, else what Vela or the reference model raise.
    """
    configuration, target = Configuration.parse(name), Target.from_flags(flags)
    delegates: list[Fields] = []
    for i, error in enumerate(side["stock_errors"]):
        given = configuration, target, files[f"{i}.explicit"], files.get(f"{i}.stock"), error
        if configuration.kind != EQSAT:
            delegates.append(_compile(*given))
        else:
            arena = max((d["stock"].sram or 0 for d in delegates), default=0)
            delegates.append(_optimize(*given, Container.of(len(side["stock_errors"]), arena)))
    total = {"vela": vela_version(), **_over_delegates(delegates, side["pte_frame_bytes"])}
    seconds = {**_lowering_seconds(configuration, side["seconds"]), **total["seconds"]}
    total["seconds"] = {k: round(v, 3) for k, v in seconds.items()}
    rows = [[r.record() for r in d["rows"]] for d in delegates]
    return total, {str(i): d["tosa"] for i, d in enumerate(delegates)}, rows


def _over_delegates(delegates: list[Fields], frame: int | None) -> Fields:
    """Returns sums, the worst or lists of the delegates' figures; `frame` has the .pte's other bytes."""
    stock, ours = (GraphFigures.together([d[side] for d in delegates], complete=True) for side in ("stock", "eqsat"))
    footprint = ours.footprint
    assert footprint is not None
    total: Fields = {"delegates": len(delegates), "cycles": ours.cycles, "corrected": ours.cycles}
    total |= {"calibrated": ours.calibrated, "calibrated_ends": ours.ends}
    for name in ("op_counts", "by_kind", "by_operator", "weight_bytes", "seconds", "e_nodes"):
        total[name] = _sum([d[name] for d in delegates if name in d])
    for name in _LISTED:
        total[name] = [d[name] for d in delegates if name in d]
    total["verified"] = all(d["verified"] for d in delegates)
    for name in ("proved", "stock_proved"):
        known = [d[name] for d in delegates if d.get(name) is not None]
        total[name] = all(known) if known else None
    total["max_difference"] = max(d["max_difference"] for d in delegates)
    gaps = [d["gap"] for d in delegates if "gap" in d]
    if gaps:  # eqsat's
        total["command_stream"] = {k: f.stream and asdict(f.stream) for k, f in (("stock", stock), ("eqsat", ours))}
    total["gap"] = None if None in gaps or not gaps else max(gaps)
    return {
        **total,
        "bound": asdict(Bound.together(d["bound"] for d in delegates)),
        "memory": footprint.memory,
        "encoded_weight_bytes": footprint.weights,
        "command_bytes": footprint.commands,
        "pte_bytes": None if frame is None else frame + footprint.payload,
    }


def _compile(configuration: Configuration, target: Target, explicit: bytes, stock: bytes | None, error: str) -> Fields:
    tosa = explicit if configuration.kind == EXPLICIT else stock
    if tosa is None:
        raise RuntimeError(f"there is no stock graph: {error}")
    with Pool(1) as pool:
        compile_tosa(explicit, target, pool)  # the worker's imports are not Vela's time
        started = time.perf_counter()
        if configuration.kind == BEST:
            estimate, settings = in_best_settings(target, partial(compile_tosa, tosa, via=pool))
        else:
            estimate, settings = compile_tosa(tosa, target, pool), ()
        seconds = time.perf_counter() - started
        outcome = compare(loads(explicit), loads(tosa), pool) if tosa is not explicit else None
    rows, least = over_bound(estimate.rows, tosa, estimate.rates), bound(loads(explicit), estimate.rates)
    return {
        **_graph(tosa, rows, GraphFigures.of(estimate, target), GraphFigures(), least),
        "seconds": {"vela": seconds},
        "settings": settings,
        "verified": outcome is None or outcome.equal,
        "max_difference": _finite(outcome.max_difference) if outcome else 0.0,
    }


def _fail(reason: str) -> bytes:
    raise StockError(reason)


def _optimize(
    configuration: Configuration,
    target: Target,
    explicit: bytes,
    stock: bytes | None,
    error: str,
    container: Container,
) -> Fields:
    options = configuration.optimizer_options()
    result = optimize_tosa(
        explicit,
        target,
        stock=partial(_fail, error) if stock is None else stock,
        options=options,
        container=container,
        with_settings=True,
    )
    found = [e for e in result.extractions if e.extractor == options.extractor]
    rows = [replace(Row.read(r), origins=None) for r in result.table]
    return {
        **result.record(),
        **_graph(result.tosa, rows, result.figures["eqsat"], result.figures["stock"], result.bound),
        "passed_over": result.passed_over,
        "max_difference": 0.0,
        "gap": found[0].gap if found else None,
    }


def _graph(tosa: bytes, rows: list[Row], ours: GraphFigures, stock: GraphFigures, least: Bound) -> Fields:
    graph = loads(tosa)
    return {
        "tosa": tosa,
        "rows": rows,
        "eqsat": ours,
        "stock": stock,
        "bound": least,
        "by_kind": ours.by_kind,
        "by_operator": by_operator(rows),
        "op_counts": graph.op_counts(),
        "weight_bytes": sum(graph.type(n).bytes for n in graph.live() if graph.nodes[n].op == "const"),
    }


def _lowering_seconds(configuration: Configuration, seconds: dict[str, float]) -> dict[str, float]:
    """Returns the seconds of the lowering that this configuration needs: of the two tails one, for eqsat both."""
    unused = {STOCK: "explicit passes", BEST: "explicit passes", EXPLICIT: "stock passes"}.get(configuration.kind)
    return {k: v for k, v in seconds.items() if k != unused}


def _sum(values: list[Any]) -> Any:
    """Returns the sum of numbers, or of tables entry by entry."""
    if values and isinstance(values[0], dict):
        return {k: _sum([v[k] for v in values if k in v]) for k in dict.fromkeys(k for v in values for k in v)}
    return sum(values)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
