"""Random graphs, compiled, run and compared."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.device.explain import explained
from benchmarks.device.records import VELA, Record, about, opened
from eqsat.bench.log import Log
from eqsat.device.verification import verify
from eqsat.ground.process import WorkerError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import TosaError, dumps
from tests.random_graphs import PROFILES, Profile, random_graph
from tests.random_graphs.profiles import REFUSED

_SMALL = replace(PROFILES["network"], fewest=1, most=5, without=REFUSED)
#: Profiles of graphs: a few operators as networks have them, and longer graphs, in INT8 and INT16.
#: The last two also have the operators that only U85 supports natively.
#: On other families Vela takes some of these (TRANSPOSE_CONV2D, REVERSE and ARGMAX of some shapes).
#: It refuses the rest there.
GRAPHS: dict[str, Profile] = {
    "few operators, INT8": replace(_SMALL, dtypes=("INT8",)),
    "few operators, INT16": replace(_SMALL, dtypes=("INT16",)),
    "as networks, INT8": PROFILES["vela"],
    "as networks, INT16": replace(PROFILES["int16"], without=REFUSED),
    "every operator, INT8": replace(_SMALL, dtypes=("INT8",), without=frozenset()),
    "every operator, INT16": replace(_SMALL, dtypes=("INT16",), without=frozenset()),
}
#: Graphs whose counts are written together, and so the most that an interrupted run repeats.
_BATCH = 100
#: Samples on which a binary runs.
_SAMPLES = 6


class Records:
    """The records of random graphs.

    counts: one for each version of Vela, target and profile.
    Each has how many of the seeds from 0 on were tried, and the outcomes.
    The outcomes are counted for all graphs, and for those with each operator and dtype.
    odd: one for each graph that is neither equal nor refused.
    """

    def __init__(self, place: Path) -> None:
        self.counts: Log = opened(place / "counts.jsonl", "vela", "target", "profile")
        self.odd: Log = opened(place / "odd.jsonl", "vela", "target", "profile", "seed")


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
    live = (graph.nodes[n] for n in graph.live())
    return [f"{n.op} {n.dtype} {list(n.shape)}" for n in live if n.op not in ("input", "const")]


def operators(graph: TensorGraph) -> set[str]:
    """Returns the operators of a graph with their dtypes."""
    live = (graph.nodes[n] for n in graph.live())
    return {f"{n.op} {n.dtype}" for n in live if n.op not in ("input", "const")}


def run(records: Records, count: int, targets: Sequence[str], profiles: Iterable[str]) -> None:
    """Runs the graphs of the seeds below `count` that have no record yet, of every profile for every target."""
    with Pool(1) as via:
        for name in targets:
            for profile in profiles:
                known = records.counts.records.get((VELA, name, profile), {"graphs": 0})
                while known["graphs"] < count:
                    known = _batch(records.odd, known, range(known["graphs"], count)[:_BATCH], name, profile, via)
                    records.counts.add(known)


def _batch(odd: Log, known: Record, seeds: Sequence[int], name: str, profile: str, via: Pool) -> Record:
    """Runs some more graphs, and returns their counts added to the known ones."""
    outcomes, refusals = Counter(known.get("outcomes", {})), Counter(known.get("refusals", {}))
    by_operator = {o: Counter(c) for o, c in known.get("operators", {}).items()}
    key: Record = {"vela": VELA, "target": name, "profile": profile}
    started = time.perf_counter()
    for seed in seeds:
        graph = random_graph(seed, GRAPHS[profile])
        found = judged(graph, Target.of(name), via)
        what = found["outcome"]
        outcomes[what] += 1
        for o in operators(graph):
            by_operator.setdefault(o, Counter())[what] += 1
        if what == "refused":
            refusals[found["reason"]] += 1
        elif what != "equal":
            odd.add({**key, "seed": seed, **about(), **found})
    return {
        **key,
        **about(),
        "graphs": seeds[-1] + 1,
        "seconds": round(known.get("seconds", 0.0) + time.perf_counter() - started, 1),
        "outcomes": dict(sorted(outcomes.items())),
        "refusals": dict(refusals.most_common()),
        "operators": {o: dict(sorted(c.items())) for o, c in sorted(by_operator.items())},
    }
