"""The e-graphs of saved networks, at their real sizes: every e-node of the saturated e-graph against its class."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from eqsat.checking.soundness import Unsound, check_frozen
from eqsat.egraph.encoding import saturate
from eqsat.egraph.engine import Budget, EngineError
from eqsat.egraph.rule import Rule
from eqsat.tensor.types import GraphError
from eqsat.tosa.flatbuffer import loads

#: At real sizes one kind of data is enough: what a wrong rule does shows in thousands of random elements.
KINDS = ("random",)
#: Generous in time: on a busy machine the same e-nodes are to be reached.
BUDGET = Budget(seconds=300.0)


def saved(directory: Path) -> Iterator[Path]:
    """Files `<model>.<delegate>.<target>.explicit.tosa`."""
    yield from sorted(directory.glob("*.explicit.tosa"))


def check_file(path: Path, rules: Sequence[Rule], budget: Budget = BUDGET) -> dict:
    """The record of one graph: e-nodes, how many have a value, how saturation stopped, seconds, peak memory of the
    process so far in MB."""
    started = time.perf_counter()
    record: dict[str, Any] = {"name": path.name.removesuffix(".explicit.tosa"), "failure": ""}
    try:
        graph = loads(path.read_bytes(), path.name)
        frozen = saturate(graph, rules, budget)
        record |= {
            "operators": sum(graph.op_counts().values()),
            "classes": sum(map(bool, frozen.classes)),
            "e_nodes": frozen.n_nodes,
            "stop": frozen.saturation.stop,
            "saturate_s": round(frozen.saturation.seconds, 2),
        }
        record["evaluated"] = check_frozen(frozen, KINDS).evaluated
    except (Unsound, EngineError, GraphError) as e:
        record["failure"] = f"{type(e).__name__}: {e}"
    record["seconds"] = round(time.perf_counter() - started, 2)
    record["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return record
