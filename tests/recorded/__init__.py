"""What the whole way makes of small graphs, as it is recorded in `answers.jsonl`: figures, and the bytes of the result.

    python -m tests.recorded

renews the record after a change that is meant to change answers. Look at its difference: more calibrated cycles or
SRAM are a loss.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa.flatbuffer import dumps
from eqsat.vela.facts import version
from tests import graphs
from tests.cost_models import a16w8

RECORD = Path(__file__).parent / "answers.jsonl"
TARGETS = ("ethos-u55-128", "ethos-u65-256", "ethos-u85-256")
#: By name, the bytes that are optimized for a target.
SAVED: Mapping[str, Callable[[str], bytes]] = {
    "upscale": lambda target: (Path(__file__).parents[2] / "examples/upscale.tosa").read_bytes(),
    "a16w8": a16w8.explicit,
    "channel_shuffle": lambda target: dumps(graphs.channel_shuffle()),
    "transposed_relus": lambda target: dumps(graphs.transposed_relus()),
    "residual": lambda target: dumps(graphs.residual()),
    "widening": lambda target: dumps(graphs.widening()),
}


def measure(name: str, target: str) -> dict[str, Any]:
    """Returns the record of one graph on one target, by default options and without remembered answers."""
    result = optimize_tosa(SAVED[name](target), target)
    return {
        "graph": name,
        "target": target,
        "vela": version(),
        "chosen": result.chosen,
        "proved": bool(result.verified and result.proved and result.binary_proved),
        "cycles": result.cycles,
        "calibrated": result.calibrated,
        "given_calibrated": result.explicit_calibrated,
        "sram": result.footprint.sram,
        "sha256": hashlib.sha256(result.tosa).hexdigest(),
    }
