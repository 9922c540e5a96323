"""The command line in this process, and Python and Vela's own command in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from eqsat.cli.app import app
from eqsat.target import Target

ROOT = Path(__file__).parents[1]
#: A model, as commands take it.
UPSCALE = f"{ROOT / 'tests/cli/upscale.py'}:model"


def run(*arguments: object, **how: Any) -> Result:
    """how: of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(a) for a in arguments], **how)


def python(*arguments: object, env: dict[str, str] | None = None, **how: Any) -> subprocess.CompletedProcess[str]:
    """A new process of Python that finds these sources. env: variables beside ours; how: of `subprocess.run`."""
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH"))))
    given = {"cwd": ROOT, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **how}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path, **(env or {})}, **given)


def install(place: Path, group: str, *points: str) -> None:
    """Writes what says that a package in a directory has entry points, "name = module:object", of a group."""
    info = place / "theirs-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: theirs\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *points, ""]))


def run_vela(tosa: bytes, target: str, place: Path, *flags: str) -> str:
    """Returns what Vela's command prints, which compiles a graph into files `graph_*` of a directory."""
    (place / "graph.tosa").write_bytes(tosa)
    vela = Path(sys.executable).parent / "vela"
    command = [vela, *Target.of(target).flags, *flags, f"--output-dir={place}", place / "graph.tosa"]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout
