"""What tests of runs share: comparing records, and small models as files."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

from eqsat.bench.run import TaskOutcome
from eqsat.ground.registry import load
from eqsat.tosa import dumps
from tests.graphs import channel_shuffle, transposed_relus

TARGET = "ethos-u85-256"
EXPLICIT = "stock-without-layout-passes"


class InThisProcess(ThreadPoolExecutor):
    """Tasks need no process of their own, which would import ExecuTorch anew."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        function, given, _ = args
        return super().submit(lambda: TaskOutcome(load(function)(*given)))


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
