"""Whether what is promised of every answer holds: of random graphs, and of networks whose limits are relaxed.

    python -m benchmarks.never_worse --graphs 300 --zoo RUN/graphs --out benchmarks/results/never_worse

Random graph k has the seed k and the k-th of the targets in turn; each goes through the whole optimizer, as
`eqsat optimize` does it.
It is dearer where one of its totals, its SRAM or its .pte is above that of the file, beyond what the limits grant.
Of each network the answer within the default limits stands beside those with one limit relaxed, which may take no more
cycles; searches remember answers as lowerings do, in a store that begins empty.
`graphs.jsonl` and `limits.jsonl` have a line for each; an interrupted run goes on where it stopped, unless the sources
have changed.
Exit code 1 where something is worse, or a binary was not judged and no warning says so.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Iterable, Sequence
from operator import itemgetter
from pathlib import Path
from typing import Any

from benchmarks import saved
from benchmarks.about import TARGETS, arguments, listed, write_about, write_text
from cost_models.calibration import spread
from eqsat.bench.cells import measuring_fingerprint
from eqsat.bench.log import Log
from eqsat.ground.process import WorkerError
from eqsat.options.decision import Figures
from eqsat.options.options import Options
from eqsat.search.answer_store import AnswerStore
from eqsat.search.optimizer import optimize_tosa
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
_PACKAGES = ("eqsat", "ethos-u-vela", "tosa-tools", "egglog")


def record_of(result: Result, target: str) -> dict[str, Any]:
    """Returns the promised properties of an answer and its figures.

    cycles, given: by Vela; corrected, given_corrected: by the corrected total.
    calibrated, given_calibrated: by the price that decides.
    allowed: the most cycles by Vela for a graph that is no dearer than the given one.
    """
    fits = result.limits.widest.fits(Figures.of(result.calibrated, result.footprint, result.cycles))
    given = result.explicit_cycles
    return {
        "chosen": result.chosen,
        "cycles": result.cycles,
        "corrected": result.corrected,
        "calibrated": result.calibrated,
        "given": given,
        "given_corrected": result.explicit_corrected,
        "given_calibrated": result.explicit_calibrated,
        "allowed": given and math.floor(given * (1 + spread(Target.of(target)))),
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


def of_random_graphs(log: Log, seeds: Iterable[int]) -> None:
    """Adds the records of random graphs to the log; for those that Vela refuses, the reason."""
    for seed in seeds:
        target = TARGETS[seed % len(TARGETS)]
        if (seed, target) in log.records:
            continue
        try:
            found = record_of(optimize_tosa(dumps(random_graph(seed)), target), target)
            record = {**found, "faults": faults(found)}
        except WorkerError as e:
            record = {"refused": str(e), "faults": []}
        log.add({"seed": seed, "target": target, **record, "sources": measuring_fingerprint()})


def of_networks(log: Log, graphs: Iterable[saved.SavedGraph], store: AnswerStore) -> None:
    """Adds the records of graphs to the log, each with each of RELAXED."""
    for graph in graphs:
        default: dict[str, Any] | None = None
        for name, options in RELAXED.items():
            at = (graph.model, graph.delegate, graph.target, name)
            if at not in log.records:
                result = optimize_tosa(
                    graph.explicit.read_bytes(),
                    graph.target,
                    stock=graph.stock.read_bytes(),
                    options=options,
                    with_settings=True,
                    store=store,
                )
                stock = {
                    "stock": result.stock_cycles,
                    "stock_corrected": result.stock_corrected,
                    "stock_calibrated": result.stock_calibrated,
                }
                found = {**record_of(result, graph.target), **stock}
                is_worse = default is not None and found["calibrated"] > default["calibrated"]
                worse = ["worse than the default"] if is_worse else []
                identity = {"model": graph.model, "delegate": graph.delegate, "target": graph.target, "limits": name}
                log.add({**identity, **found, "faults": worse, "sources": measuring_fingerprint()})
            if name == "default":
                default = log.records[at]


def summary(graphs: Sequence[dict[str, Any]], networks: Sequence[dict[str, Any]]) -> str:
    """Returns a paragraph for random graphs, one for networks, and a line per fault, as Markdown."""
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
    named = [
        (r.get("model", r.get("seed")), r["target"], r.get("limits", ""), f)
        for r in (*graphs, *networks)
        for f in r["faults"]
    ]
    return "\n".join([*lines, *(f"* {name} {target} {limits}: {fault}" for name, target, limits, fault in named), ""])


def main(argv: list[str] | None = None) -> int:
    parser = arguments(__doc__, "never_worse")
    parser.add_argument("--graphs", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="seed of the first random graph, for several machines")
    parser.add_argument("--zoo", type=Path, help="directory of MODEL.DELEGATE.TARGET.{explicit,stock}.tosa")
    parser.add_argument("--models", default="", help="only these of the directory, comma-separated")
    parser.add_argument("--target", default="", help="only this one of the directory")
    args = parser.parse_args(argv)
    write_about(args.out, _PACKAGES)

    def is_current(record: dict[str, Any]) -> bool:
        return bool(record.get("sources") == measuring_fingerprint())

    graphs = Log(args.out / "graphs.jsonl", itemgetter("seed", "target"), is_current)
    networks = Log(args.out / "limits.jsonl", itemgetter("model", "delegate", "target", "limits"), is_current)
    of_random_graphs(graphs, range(args.first, args.graphs))
    if args.zoo:
        wanted = saved.graphs(args.zoo, listed(args.models), listed(args.target))
        with tempfile.TemporaryDirectory() as place:
            of_networks(networks, wanted, AnswerStore(Path(place) / "prices"))
    every = list(graphs.records.values()), list(networks.records.values())
    print(write_text(args.out / "table.md", summary(*every)))
    return int(any(r["faults"] for records in every for r in records))


if __name__ == "__main__":
    sys.exit(main())
