"""The command line in this process, and Python in another one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from eqsat.cli.app import app

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
