"""What was measured with: `run.json` beside records, and its line in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.ground.files import write_atomically
from eqsat.ground.versions import commit, versions


def about(packages: Sequence[str]) -> dict[str, Any]:
    """The commit and the versions of packages."""
    return {"commit": commit(), "versions": versions(packages)}


def write_about(directory: Path, packages: Sequence[str], **more: Any) -> dict[str, Any]:
    """The commit, the versions of packages, and more, as they are written to `directory`/run.json."""
    written = {**about(packages), **more}
    write_atomically(directory / "run.json", (json.dumps(written, indent=1) + "\n").encode())
    return written


def as_text(written: Mapping[str, Any]) -> str:
    return f"Commit {written['commit']}; {', '.join(f'{k} {v}' for k, v in written['versions'].items())}"
