"""The command line in this process."""

from __future__ import annotations

from typing import Any

from typer.testing import CliRunner, Result

from eqsat.cli.app import app


def run(*arguments: object, **how: Any) -> Result:
    """how: of `CliRunner.invoke`."""
    return CliRunner().invoke(app, [str(a) for a in arguments], **how)
