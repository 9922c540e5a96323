"""Records of long runs: a line of JSON each, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: What the choice of the optimizer depends on.
OPTIMIZER = (
    "eqsat/*.py",
    "eqsat/egraph/*.py",
    "eqsat/rules/*.py",
    "eqsat/tosa/*.py",
    "extraction/*.py",
    "cost_models/*.py",
)


def sources(patterns: Sequence[str]) -> str:
    """A digest of the source files that match, from the root of the project."""
    digest = hashlib.blake2b(digest_size=8)
    for pattern in patterns:
        for file in sorted(ROOT.glob(pattern)):
            digest.update(file.read_bytes())
    return digest.hexdigest()


class Log:
    """Records on disk. Those that other sources made are dropped when it is opened: a result is of one version."""

    def __init__(self, path: Path, version: str):
        self.path, self.version = path, version
        lines = path.read_text().splitlines() if path.exists() else []
        self.records = [r for r in map(json.loads, lines) if r["sources"] == version]
        path.write_text("".join(json.dumps(r) + "\n" for r in self.records))

    def add(self, record: dict) -> None:
        self.records.append({**record, "sources": self.version})
        with self.path.open("a") as f:
            f.write(json.dumps(self.records[-1]) + "\n")
