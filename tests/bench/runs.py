"""What tests of runs share: comparing records, and small models as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from eqsat.bench.isolated import TaskOutcome
from eqsat.ground.process import Limits
from eqsat.ground.registry import load
from eqsat.tosa import dumps
from tests.graphs import channel_shuffle, transposed_relus

TARGET = "ethos-u85-256"
EXPLICIT = "stock-without-layout-passes"
#: The record of a cell of eqsat.
FIELDS = {
    **{"model": "m", "target": TARGET, "configuration": "eqsat", "vela": "5.2.0", "verified": True},
    **{"cycles": 7, "corrected": 7, "calibrated": 7, "seconds": {"vela": 1.5}},
    **{"peak_mib": 1.5, "gap": 0.5, "max_difference": 0.0},
    **{"by_kind": {"rescale": 7}, "memory": {"Sram": {"peak": 64}}, "pte_bytes": 9, "weight_bytes": 9, "stop": ["x"]},
    "by_operator": {"Rescale": {"operators": 1, "cycles": 7, "ideal": 5.0, "waiting": 1}},
    "bound": {"roofline": 5.0, "operators": 5.0, "mac_cycles": 1.0},
    **{"binary_verified": [True], "binary_proved": [True], "proved": True, "stock_binary_verified": [None]},
}


def attempt_here(function: str, args: tuple[Any, ...], limits: Limits) -> TaskOutcome:
    """Takes the place of `isolated.attempt` for tasks that need no process of their own, which imports ExecuTorch."""
    return TaskOutcome(load(function)(*args))


def tosa_files(directory: Path) -> list[str]:
    """Two small models."""
    paths = []
    for make in (transposed_relus, channel_shuffle):
        path = directory / f"{make.__name__}.tosa"
        path.write_bytes(dumps(make()))
        paths.append(str(path))
    return paths


def figures(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Records without what no two runs have in common: seconds and sampled memory."""
    return [{k: v for k, v in r.items() if k not in ("seconds", "peak_mib")} for r in records]
