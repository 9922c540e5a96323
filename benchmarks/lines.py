"""Counts lines by package: all lines, and lines of code without comments, docstrings and blank lines.

    python -m benchmarks.lines [REVISION]

Of the sources as they are; with a revision also of that, beside them. A line is one of code if a token of code stands
in it.

Takes seconds.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks.ages import documented, git
from benchmarks.study import ROOT, arguments, markdown_table

#: The top-level packages, those of the library first; each subpackage of `eqsat` is a room.
LIBRARY, BESIDE = ("eqsat", "extraction", "cost_models"), ("tests", "benchmarks")
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
#: (all lines, lines of code).
Counts = tuple[int, int]


def count(source: str) -> Counts:
    """Returns the lines of a module, and those of code."""
    found: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            found.update(range(token.start[0], token.end[0] + 1))
    for node in documented(ast.parse(source)):
        text = node.body[0]
        found.difference_update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(source.splitlines()), len(found)


def room(path: str) -> str:
    """Returns the room of a file: a package, or a subpackage of `eqsat`."""
    parts = Path(path).parts
    return "/".join(parts[:2]) if parts[0] == "eqsat" and len(parts) > 2 else parts[0]


def rooms(files: Iterable[tuple[str, str]]) -> dict[str, Counts]:
    """Returns the lines of (path, source) by room."""
    out: dict[str, Counts] = {}
    for path, source in files:
        (every, code), (before, code_before) = count(source), out.get(room(path), (0, 0))
        out[room(path)] = before + every, code_before + code
    return out


def sources() -> Iterator[tuple[str, str]]:
    for package in (*LIBRARY, *BESIDE):
        for f in sorted((ROOT / package).rglob("*.py")):
            yield f.relative_to(ROOT).as_posix(), f.read_text()


def sources_of(revision: str) -> Iterator[tuple[str, str]]:
    """Yields the sources of a revision. Raises CalledProcessError if there is none."""
    listed = git(ROOT, "ls-tree", "-r", "--name-only", revision, "--", *LIBRARY, *BESIDE)
    for path in (p for p in listed.splitlines() if p.endswith(".py")):
        yield path, git(ROOT, "show", f"{revision}:{path}")


def table(sides: Mapping[str, Mapping[str, Counts]]) -> str:
    """Returns a row per room and the sums, as Markdown. sides: {name: lines by room}, with two their difference."""
    names = list(sides)
    listed = sorted({r for side in sides.values() for r in side}, key=lambda r: (r.split("/")[0] in BESIDE, r))
    sums = {
        "**library**": [r for r in listed if r.split("/")[0] in LIBRARY],
        "**tests and benchmarks**": [r for r in listed if r in BESIDE],
    }
    head = ["room", *(f"{n}, {what}" for n in names for what in ("all", "code"))]
    rows = []
    for name, of in [*((r, [r]) for r in listed), *sums.items()]:
        counts = [tuple(sum(sides[n].get(r, (0, 0))[k] for r in of) for k in (0, 1)) for n in names]
        cells = [f"{c:,}" for pair in counts for c in pair]
        rows.append([name, *cells, *([f"{counts[1][0] - counts[0][0]:+,}"] if len(names) == 2 else [])])
    return "\n".join(markdown_table(head + (["difference"] if len(names) == 2 else []), rows))


def main(argv: list[str] | None = None) -> None:
    parser = arguments(__doc__)
    parser.add_argument("revision", nargs="?", help="a commit to compare with")
    revision = parser.parse_args(argv).revision
    before = {revision: rooms(sources_of(revision))} if revision else {}
    print(table({**before, "now": rooms(sources())}))


if __name__ == "__main__":
    main()
