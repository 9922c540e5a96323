"""The e-graphs of saved networks at their real sizes.

Every e-node of a saturated e-graph is compared with its class.
"""

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

#: Kinds of data.
#: One is enough at real sizes, since the effect of a wrong rule shows in thousands of random elements.
KINDS = ("random",)
#: The budget of saturation.
#: It is generous in time, so that a busy machine reaches the same e-nodes.
BUDGET = Budget(seconds=300.0)


def saved(directory: Path) -> Iterator[Path]:
    """Yields the files `<model>.<delegate>.<target>.explicit.tosa` of a directory."""
    yield from sorted(directory.glob("*.explicit.tosa"))


def check_file(path: Path, rules: Sequence[Rule], budget: Budget = BUDGET) -> dict:
    """Returns the record of one graph.

    e_nodes, evaluated: e-nodes, and those that have a value.
    stop: why saturation stopped.
    seconds: of the whole check.
    peak_mb: peak memory of the process so far, in MiB.
    """
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
