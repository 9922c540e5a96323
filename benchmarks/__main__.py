"""Lists the studies, with the command, purpose and duration of each.

    python -m benchmarks

Takes a moment. `eqsat bench` measures networks; each command has `--help`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.study import COMMAND, ROOT, markdown_table

_TAKES = re.compile(r"^Takes (.*?)[.;]( |$)", re.M)


def studies() -> Iterator[tuple[str, str, str]]:
    """Yields (command, what it answers, how long it takes) of each module that is a command, by its docstring."""
    for path in sorted((ROOT / "benchmarks").rglob("*.py")):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if (command := COMMAND.search(text)) and (takes := _TAKES.search(text)):
            yield command[1], " ".join(text.partition("\n\n")[0].split()).rstrip("."), takes[1]


if __name__ == "__main__":
    print("\n".join(markdown_table(("python -m", "purpose", "takes"), studies(), names=3)))
