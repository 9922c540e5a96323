"""All commands together; the package itself, which `python -m` imports before Ctrl-C is handled, imports none."""

from eqsat.cli import (  # noqa: F401 - importing a command adds it
    bench,
    binaries,
    cache,
    compile,
    execute,
    explain,
    optimize,
    prove,
    rules,
)
from eqsat.cli.common import app as app
