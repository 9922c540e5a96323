"""Random graphs, compiled, run and compared."""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.metadata import version

from benchmarks.device.explain import explained, operators
from benchmarks.study import ROOT
from eqsat.bench.cells import key
from eqsat.bench.cells import sources as sources_of_cells
from eqsat.bench.records import Record
from eqsat.ground.process import WorkerError
from eqsat.ground.versions import commit
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, dumps
from tests.device.verify import verify
from tests.random_graphs import PROFILES, REFUSED, Profile, random_graph

#: The installed version of Vela.
VELA = version("ethos-u-vela")
_SMALL = replace(PROFILES["network"], fewest=1, most=5, without=REFUSED)
#: Profiles of graphs: a few operators as networks have them, and longer graphs, in INT8 and INT16.
#: The last two also have the operators that only U85 supports natively. On other families Vela takes some of these
#: (TRANSPOSE_CONV2D, REVERSE and ARGMAX of some shapes), and refuses the rest.
GRAPHS: dict[str, Profile] = {
    "few operators, INT8": replace(_SMALL, dtypes=("INT8",)),
    "few operators, INT16": replace(_SMALL, dtypes=("INT16",)),
    "as networks, INT8": PROFILES["vela"],
    "as networks, INT16": replace(PROFILES["int16"], without=REFUSED),
    "every operator, INT8": replace(_SMALL, dtypes=("INT8",), without=frozenset()),
    "every operator, INT16": replace(_SMALL, dtypes=("INT16",), without=frozenset()),
}
#: Graphs that are counted together, and so the most that an interrupted run repeats.
_BATCH = 100
#: Samples on which a binary runs.
_SAMPLES = 6


def judged(graph: TensorGraph, target: Target, via: Pool) -> Record:
    """Returns the outcome and the reason for one graph.

    If it differs, they include the known defect of Vela, and the operators to which the graph is cut down.
    """
    try:
        found = verify(dumps(graph), target, via, _SAMPLES)
    except WorkerError as e:
        return {"outcome": "refused" if e.refused else "failed", "reason": " ".join(str(e).split())[:160]}
    if found.equal is None:
        return {"outcome": "not run", "reason": found.reason[:160]}
    if found.equal:
        return {"outcome": "equal"}
    defect, cut = explained(graph, lambda g: _differs(g, target, via), target, ".".join(VELA.split(".")[:2]))
    return {"outcome": "differs", "reason": found.reason, "defect": defect, "cut": shown(cut)}


def _differs(graph: TensorGraph, target: Target, via: Pool) -> bool:
    """Tells whether the binary of a graph differs from the reference."""
    try:
        return verify(dumps(graph), target, via, _SAMPLES).equal is False
    except (WorkerError, TosaError):
        return False


def shown(graph: TensorGraph) -> list[str]:
    """Returns the operators of a graph in order, with the dtypes and shapes of their results."""
    return [f"{n.op} {n.dtype} {list(n.shape)}" for n in (graph.nodes[k] for k in operators(graph))]


def cells(args: argparse.Namespace, records: Sequence[Record]) -> Iterator[tuple[Record, tuple[str, str, range]]]:
    """Yields the graphs of the seeds below `--graphs`, some at once, of every profile for every target."""
    for target in args.targets:
        for profile in args.profiles:
            cell = {"vela": VELA, "target": target, "profile": profile}
            known = (r["first"] + r["graphs"] for r in records if "graphs" in r and cell.items() <= r.items())
            for first in range(max(known, default=0), args.graphs, _BATCH):
                yield {**cell, "first": first}, (target, profile, range(first, args.graphs)[:_BATCH])


def measure(subject: tuple[str, str, range], _: object) -> list[Record]:
    """Returns the counts of some graphs, and a record for each that is neither equal nor refused.

    The outcomes are counted for all graphs, and for those with each operator and dtype.
    """
    (target, profile, seeds), odd = subject, list[Record]()
    outcomes, refusals = Counter[str](), Counter[str]()
    by_operator = defaultdict[str, Counter[str]](Counter)
    with Pool(1) as via:
        for seed in seeds:
            graph = random_graph(seed, GRAPHS[profile])
            found = judged(graph, Target.of(target), via)
            what = found["outcome"]
            outcomes[what] += 1
            for o in {f"{graph.nodes[n].op} {graph.nodes[n].dtype}" for n in operators(graph)}:
                by_operator[o][what] += 1
            if what == "refused":
                refusals[found["reason"]] += 1
            elif what != "equal":
                odd.append({"seed": seed, **found})
    counts = {
        "graphs": len(seeds),
        "outcomes": dict(sorted(outcomes.items())),
        "refusals": dict(refusals.most_common()),
        "operators": {o: dict(sorted(c.items())) for o, c in sorted(by_operator.items())},
    }
    return [{"commit": commit(), **r} for r in (counts, *odd)]


def sources() -> str:
    """Returns a digest of the code on which the records depend; those of other versions of Vela are kept."""
    drawn_by = [ROOT / "tests/random_graphs.py", ROOT / "eqsat/checking/random_graphs.py"]
    return key(sources_of_cells(), *(f.read_bytes() for f in drawn_by))
