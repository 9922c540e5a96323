"""What a benchmark was measured with: the file `run.json` beside its records, and a line of its table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eqsat.ground.files import write_atomically
from eqsat.ground.versions import commit, versions


def about(packages: Sequence[str]) -> dict[str, Any]:
    """Returns the commit and the versions of packages."""
    return {"commit": commit(), "versions": versions(packages)}


def write_about(directory: Path, packages: Sequence[str], file: str = "run.json", **more: Any) -> dict[str, Any]:
    """Writes the commit, the versions of packages, and more to a file of `directory`, and returns them."""
    written = {**about(packages), **more}
    write_atomically(directory / file, (json.dumps(written, indent=1) + "\n").encode())
    return written


def as_text(written: Mapping[str, Any]) -> str:
    """Returns the commit and the versions as a line, without a full stop."""
    return f"Commit {written['commit']}; {', '.join(f'{k} {v}' for k, v in written['versions'].items())}"
