"""All commands together.

They are not imported by the package itself.
`python -m` imports that before Ctrl-C is handled (`__main__.py`).
"""

from eqsat.cli import (  # noqa: F401 - importing a command adds it
    bench,
    binaries,
    cache,
    check_rules,
    compile,
    execute,
    explain,
    optimize,
    prove,
    report,
    rules,
)
from eqsat.cli.common import app as app
