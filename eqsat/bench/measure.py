"""The figures of one cell, from the graphs at the hook point."""

from __future__ import annotations

import math
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from eqsat.bench.cells import EXPLICIT, STOCK, TUNED, Configuration
from eqsat.options.decision import Container
from eqsat.options.options import Options
from eqsat.options.referee import total as total_price
from eqsat.search.given import StockError
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.setting_rounds import tuned
from eqsat.target import Target
from eqsat.tosa.flatbuffer import loads
from eqsat.tosa.reference import compare
from eqsat.vela.compile import Estimate, Footprint, compile_tosa
from eqsat.vela.facts import version as vela_version
from eqsat.vela.roofline import Bound, bound, by_operator, over_bound
from eqsat.workers.worker import Pool

Fields = dict[str, Any]

#: What is known of binaries.
_BINARIES = (
    *("binary_verified", "binary_reason", "binary_proved", "binary_undecided"),
    *("stock_binary_verified", "stock_binary_proved", "stock_binary_undecided"),
)
#: What a delegate's figures have of `Result.record`.
_RECORDED = (
    *("seconds", "settings", "verified", "proved", "undecided", "error_bound", "stock_proved", "deviation", "points"),
    *_BINARIES,
    *("e_nodes", "stop", "chosen", "extractions", "coverage", "warnings"),
)


def measure(
    name: str, flags: list[str], files: dict[str, bytes], side: Fields, cold: bool
) -> tuple[Fields, dict[str, bytes], list[list[dict]]]:
    """For a configuration by name: (fields of the record, the graph that Vela got per delegate, Vela's table per
    delegate); sums are over the delegates.

    cold: with an empty price cache, so that seconds are those of a first compilation and no cell depends on another.
    Raises RuntimeError if stock has no graph, else what Vela or the reference model refuse.
    """
    configuration, target = Configuration.parse(name), Target.from_flags(flags)
    figures: list[Fields] = []
    for i in range(len(side["stock_errors"])):
        arena = max((f["stock_sram"] for f in figures), default=0)
        figures.append(_delegate(configuration, target, files, i, side, cold, arena))
    footprint = Footprint.together(f.pop("footprint") for f in figures)
    rows: list[list[dict]] = [f.pop("rows") for f in figures]
    tosas = {str(i): f.pop("tosa") for i, f in enumerate(figures)}
    total = {
        "vela": vela_version(),
        **_over_delegates(figures),
        "bound": asdict(Bound.together(f["bound"] for f in figures)),
        "memory": footprint.memory,
        "encoded_weight_bytes": footprint.weights,
        "command_bytes": footprint.commands,
        "pte_bytes": None if side["pte_frame_bytes"] is None else side["pte_frame_bytes"] + footprint.payload,
    }
    seconds = {**_lowering_seconds(configuration, side["seconds"]), **total["seconds"]}
    total["seconds"] = {k: round(v, 3) for k, v in seconds.items()}
    return total, tosas, rows


def _over_delegates(figures: list[Fields]) -> Fields:
    """What the delegates' figures are together: sums, the worst, or a list."""
    total: Fields = {"delegates": len(figures)}
    for name in ("cycles", "corrected", "op_counts", "by_kind", "by_operator", "weight_bytes", "seconds", "e_nodes"):
        total[name] = _sum([f[name] for f in figures if name in f])
    several = (
        "stop",
        "chosen",
        "extractions",
        "coverage",
        "warnings",
        "deviation",
        "points",
        "passed_over",
        "undecided",
        "settings",
    )
    for name in (*several, *_BINARIES):
        total[name] = [f[name] for f in figures if name in f]
    total["verified"] = all(f["verified"] for f in figures)
    for name in ("proved", "stock_proved"):
        known = [f[name] for f in figures if f.get(name) is not None]
        total[name] = all(known) if known else None
    total["max_difference"] = max(f["max_difference"] for f in figures)
    if streams := [f["command_stream"] for f in figures if "command_stream" in f]:
        prices = {side: total_price(s[side] for s in streams) for side in ("stock", "eqsat")}
        total["command_stream"] = {side: p and asdict(p) for side, p in prices.items()}
    gaps = [f["gap"] for f in figures if "gap" in f]
    total["gap"] = None if None in gaps or not gaps else max(gaps)
    return total


def _delegate(
    configuration: Configuration,
    target: Target,
    files: dict[str, bytes],
    i: int,
    side: Fields,
    cold: bool,
    arena: int,
) -> Fields:
    explicit, stock = files[f"{i}.explicit"], files.get(f"{i}.stock")
    errors = side["stock_errors"]
    if configuration.kind not in (STOCK, TUNED, EXPLICIT):
        return _optimized(configuration, target, explicit, stock, errors[i], cold, Container.of(len(errors), arena))
    tosa = explicit if configuration.kind == EXPLICIT else stock
    if tosa is None:
        raise RuntimeError(f"there is no stock graph: {errors[i]}")
    with Pool(1) as pool:
        compile_tosa(explicit, target, pool)  # the worker's imports are not Vela's time
        started = time.perf_counter()
        estimate = compile_tosa(tosa, target, pool)
        settings: tuple[str, ...] = ()
        if configuration.kind == TUNED:
            estimate, settings = tuned(tosa, target, estimate, pool)
        seconds = time.perf_counter() - started
        outcome = compare(loads(explicit), loads(tosa), pool, Options().trials) if tosa is not explicit else None
    return {
        **_graph(explicit, tosa, estimate),
        "stock_sram": 0,
        "seconds": {"vela": seconds},
        "settings": settings,
        "verified": outcome is None or outcome.equal,
        "max_difference": _finite(outcome.max_difference) if outcome else 0.0,
    }


def _failed(reason: str) -> bytes:
    raise StockError(reason)


def _optimized(
    configuration: Configuration,
    target: Target,
    explicit: bytes,
    stock: bytes | None,
    error: str,
    cold: bool,
    container: Container,
) -> Fields:
    with tempfile.TemporaryDirectory() as own:
        options = configuration.optimizer_options(**({"cache": Path(own) / "store.sqlite"} if cold else {}))
        result = optimize_tosa(
            explicit,
            target,
            stock=partial(_failed, error) if stock is None else stock,
            options=options,
            container=container,
            with_settings=True,
        )
    with Pool(1) as pool:
        estimate = compile_tosa(result.tosa, target.with_flags(result.settings), pool)
    found = [e for e in result.extractions if e.extractor == options.extractor]
    record, before = result.record(), result.figures["stock"].footprint
    return {
        "stock_sram": before.sram if before else 0,
        **_graph(explicit, result.tosa, estimate),
        **{name: record[name] for name in _RECORDED},
        "command_stream": result.command_stream,
        "passed_over": result.passed_over,
        "max_difference": max(result.deviation.largest) if result.deviation else 0.0,
        "gap": found[0].gap if found else None,
    }


def _graph(explicit: bytes, tosa: bytes, estimate: Estimate) -> Fields:
    graph, rows = loads(tosa), over_bound(estimate.rows, tosa, estimate.rates)
    return {
        "tosa": tosa,
        "footprint": estimate.footprint,
        "rows": [r.record() for r in rows],
        "cycles": estimate.cycles,
        "corrected": estimate.corrected,
        "bound": bound(loads(explicit), estimate.rates),
        "by_kind": estimate.by_kind,
        "by_operator": by_operator(rows),
        "op_counts": graph.op_counts(),
        "weight_bytes": sum(graph.type(n).bytes for n in graph.live() if graph.nodes[n].op == "const"),
    }


def _lowering_seconds(configuration: Configuration, seconds: dict[str, float]) -> dict[str, float]:
    """What this configuration needs of the lowering: one of the two tails after the hook point, eqsat both."""
    unused = {STOCK: "explicit passes", TUNED: "explicit passes", EXPLICIT: "stock passes"}.get(configuration.kind)
    return {k: v for k, v in seconds.items() if k != unused}


def _sum(values: list) -> Any:
    """Numbers added, tables added entry by entry."""
    if values and isinstance(values[0], dict):
        return {k: _sum([v[k] for v in values if k in v]) for k in dict.fromkeys(k for v in values for k in v)}
    return sum(values)


def _finite(x: float) -> float | None:
    return x if math.isfinite(x) else None
