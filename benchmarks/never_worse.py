"""Tests the promises about results on random graphs, and on networks with relaxed limits.

    python -m benchmarks.never_worse --graphs 300 --zoo RUN/graphs

Random graph k has the seed k and the k-th of the targets in turn; each goes through the whole optimizer, as
`eqsat optimize` does it.
It is dearer where one of its totals, its SRAM or its .pte is above that of the file, beyond what the limits grant.
Of each network the answer within the default limits stands beside those with one limit relaxed, which may take no more
cycles; searches remember answers as lowerings do, in a store that begins empty.
Exit code 1 where something is worse, or a binary was not judged and no warning says so.

Takes a search for each random graph, and four for each network on a target.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks import saved
from benchmarks.study import TARGETS, Study, listed
from cost_models.calibration import get_spread
from eqsat.bench.fields import Record
from eqsat.ground.process import WorkerError
from eqsat.options.decision import Figures
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.recall import AnswerStore
from eqsat.search.result import Result
from eqsat.target import Target
from eqsat.tosa.flatbuffer import dumps
from tests.random_graphs import random_graph

#: Options with relaxed limits, by their name in the records.
RELAXED = {
    "default": Options(),
    "max_sram": Options(max_sram="any"),
    "max_flash": Options(max_flash="any"),
    "both": Options(max_sram="any", max_flash="any"),
}


def record_of(result: Result, target: str) -> dict[str, Any]:
    """Returns the promised properties of an answer and its figures.

    cycles, given: by Vela.
    calibrated, given_calibrated: by the price that decides.
    allowed: the most cycles by Vela for a graph that is no dearer than the given one.
    """
    fits = result.limits.widest.fits(Figures.of(result.calibrated, result.footprint, result.cycles))
    given = result.explicit_cycles
    return {
        "chosen": result.chosen,
        "cycles": result.cycles,
        "calibrated": result.calibrated,
        "given": given,
        "given_calibrated": result.explicit_calibrated,
        "allowed": given and math.floor(given * (1 + get_spread(Target.of(target)))),
        "fits": fits,
        "verified": result.verified,
        "proved": result.proved,
        "binary_verified": result.binary_verified,
        "warnings": list(result.warnings),
    }


def faults(record: dict[str, Any]) -> list[str]:
    """Returns the promises that one answer to a file of its own breaks, in words."""
    found = []
    # Vela refuses some files and takes graphs that are equal to them.
    compiled = record["given"] is not None
    wrong = any(w.startswith("the explicit graph was not used: Vela compiles it wrongly") for w in record["warnings"])
    dearer = compiled and (record["cycles"] > record["allowed"] or record["calibrated"] > record["given_calibrated"])
    if dearer and not wrong:
        found.append("dearer than the file")
    if not record["fits"]:
        found.append("above the limits")
    if not record["verified"]:
        found.append("not verified")
    if record["binary_verified"] is None and not record["warnings"]:
        found.append("a binary that was not judged, and no warning")
    if record["binary_verified"] is False and not record["warnings"]:
        found.append("a wrong binary, and no warning")
    return found


def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, Any]]:
    """Yields random graphs, and networks with each of RELAXED and what their answer within the default limits took."""
    for seed in range(args.first, args.graphs):
        yield {"seed": seed, "target": TARGETS[seed % len(TARGETS)]}, (seed, TARGETS[seed % len(TARGETS)])
    for graph in saved.graphs(args.zoo, args.models, args.targets) if args.zoo else ():
        cell = {"model": graph.model, "delegate": graph.delegate, "target": graph.target}
        for limits in RELAXED:
            default = next((r for r in records if {**cell, "limits": "default"}.items() <= r.items()), None)
            yield {**cell, "limits": limits}, (graph, limits, default)


def measure(subject: Any, _: object) -> list[Record]:
    """Returns the record of a cell; for a random graph that Vela refuses, the reason."""
    if isinstance(subject[0], saved.SavedGraph):
        return [of_network(*subject)]
    seed, target = subject
    try:
        found = record_of(optimize_tosa(dumps(random_graph(seed)), target), target)
        return [{**found, "faults": faults(found)}]
    except WorkerError as e:
        return [{"refused": str(e), "faults": []}]


@cache
def _place() -> tempfile.TemporaryDirectory[str]:
    """Returns the place of the store of answers, which is gone when the process ends."""
    return tempfile.TemporaryDirectory()


def of_network(graph: saved.SavedGraph, limits: str, default: Record | None) -> Record:
    """Returns the record of a network's answer within limits, which may be no worse than that within the default."""
    result = optimize_tosa(
        graph.explicit.read_bytes(),
        graph.target,
        stock=graph.stock.read_bytes(),
        options=RELAXED[limits],
        with_settings=True,
        store=AnswerStore(Path(_place().name) / "prices"),
    )
    found = record_of(result, graph.target)
    is_worse = default is not None and found["calibrated"] > default["calibrated"]
    return {
        **found,
        "stock": result.stock_cycles,
        "stock_calibrated": result.stock_calibrated,
        "faults": ["worse than the default"] if is_worse else [],
    }


def summary(records: Sequence[Record], _: Mapping[str, Any]) -> str:
    """Returns a paragraph for random graphs, one for networks, and a line per fault, as Markdown."""
    graphs, networks = ([r for r in records if ("seed" in r) is are_random] for are_random in (True, False))
    judged = [r for r in graphs if "refused" not in r]
    lines = [
        "# Never worse",
        "",
        f"* {len(graphs)} random graphs, {len(graphs) - len(judged)} of which Vela refuses. Of the others "
        f"{sum(bool(r['faults']) for r in judged)} have a fault; {sum(r['chosen'] == 'eqsat' for r in judged)} are "
        f"answered by a graph of "
        f"eqsat's; proved {sum(bool(r['proved']) for r in judged)}; binary verified "
        f"{sum(r['binary_verified'] is True for r in judged)}, not judged and told so "
        f"{sum(r['binary_verified'] is None for r in judged)}, wrong and told so "
        f"{sum(r['binary_verified'] is False for r in judged)}.",
        f"* {len({(r['model'], r['target']) for r in networks})} networks on a target, limits relaxed one by one: "
        f"{sum(bool(r['faults']) for r in networks)} of {sum(r['limits'] != 'default' for r in networks)} answers "
        f"are worse than the default's.",
    ]
    named = [(r.get("model", r.get("seed")), r["target"], r.get("limits", ""), f) for r in records for f in r["faults"]]
    return "\n".join([*lines, *(f"* {name} {target} {limits}: {fault}" for name, target, limits, fault in named), ""])


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first random graph, for several machines")
    parser.add_argument("--zoo", type=Path, help="directory of MODEL.DELEGATE.TARGET.{explicit,stock}.tosa")
    parser.add_argument("--models", type=listed, default=[], help="only these of the directory, comma-separated")
    parser.add_argument("--targets", type=listed, default=[], help="only these of the directory")


def every_fault(records: Sequence[Record]) -> list[str]:
    return [fault for r in records for fault in r["faults"]]


STUDY = Study(__doc__, "never_worse", options, cells, measure, summary, every_fault)

if __name__ == "__main__":
    raise SystemExit(STUDY.main())
