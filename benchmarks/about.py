"""What was measured with: `run.json` beside records, and its line in a table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.files import write_atomically
from eqsat.versions import commit, versions


def write_about(directory: Path, packages: Sequence[str], **more: Any) -> dict[str, Any]:
    """The commit, the versions of packages, and more, as they are written to `directory`/run.json."""
    about = {"commit": commit(), "versions": versions(packages), **more}
    write_atomically(directory / "run.json", (json.dumps(about, indent=1) + "\n").encode())
    return about


def as_text(about: Mapping[str, Any]) -> str:
    return f"Commit {about['commit']}; {', '.join(f'{k} {v}' for k, v in about['versions'].items())}"
