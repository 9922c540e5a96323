"""All commands together. Not in the package itself: `python -m` imports that before Ctrl-C is taken care of
(`__main__.py`)."""

from eqsat.cli import (
    bench,
    binaries,
    cache,
    check_rules,
    compile,
    discover,
    execute,
    explain,
    fit,
    new,
    optimize,
    prove,
    report,
    rules,
)
from eqsat.cli.common import app

__all__ = [
    "app",
    "bench",
    "binaries",
    "cache",
    "check_rules",
    "compile",
    "discover",
    "execute",
    "explain",
    "fit",
    "new",
    "optimize",
    "prove",
    "report",
    "rules",
]
