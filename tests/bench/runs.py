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
