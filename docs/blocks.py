"""The code blocks of a page, run as a reader would run them.

    python -m docs.blocks docs/start.md ...      # runs pages and writes what their blocks print into the pages

Blocks are run in order in one directory, which shows the repository's `examples` and `benchmarks`:

* `python` blocks share a namespace; one that begins with `# NAME.py` is saved under that name instead;
* `bash` blocks run in a shell that knows `eqsat` and `python`; commands of ours alone run in this process, as their
  tests do;
* a `toml` block with entry points is that of an installed package from there on, one that begins with
  `# pyproject.toml` is saved under that name;
* a `text` block after one of them is what it prints, without lines of wall time and of earlier searches.

`<!-- setup ... -->` holds Python that a page needs and does not show. A block whose first line is `# not run: REASON`
is left out.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

ROOT = Path(__file__).parent.parent
LANGUAGES = ("python", "bash", "toml", "text")
NOT_RUN = "# not run: "
_FENCE = re.compile(r"^(?:```(?P<language>\w*|\{[\w-]+\}[^\n]*)|<!-- setup)\n(?P<code>.*?)^(?:```|-->)$", re.M | re.S)
_FILE = re.compile(r"# (\w+\.py|pyproject\.toml)\n")
_VOLATILE = ("seconds: ", "not searched again: ")
#: Directives that hold no code of their own.
_SHOWN = ("{toctree}", "{literalinclude}", "{eval-rst}")


class BlockError(Exception):
    """A block that fails, or prints something else than its page says; the message names page and line."""


@dataclass(slots=True)
class CodeBlock:
    language: str
    code: str
    line: int
    start: int
    end: int


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> list[CodeBlock]:
    """The blocks of a page with the line of their first line of code. Raises BlockError for a language that cannot be
    run."""
    text, out = page.read_text(encoding="utf-8"), []
    for m in _FENCE.finditer(text):
        language = "python" if m["language"] is None else m["language"]
        line = text.count("\n", 0, m.start("code")) + 1
        if language.startswith(_SHOWN):
            continue
        if language not in LANGUAGES:
            raise BlockError(
                f"{page.name}:{line}: no block of the language {language!r} can be run; use {', '.join(LANGUAGES)}"
            )
        out.append(CodeBlock(language, m["code"], line, m.start("code"), m.end("code")))
    return out


def run(page: Path, directory: Path) -> list[tuple[CodeBlock, str]]:
    """Runs a page's blocks in `directory`; gives each `text` block and what it should say. Raises BlockError."""
    for name in ("examples", "benchmarks"):
        (directory / name).symlink_to(ROOT / name)
    shell = environment(directory)
    names: dict[str, Any] = {"__name__": f"docs.{page.stem}"}
    printed, outputs, here = "", [], os.getcwd()
    os.chdir(directory)
    sys.path.insert(0, str(directory))
    try:
        for b in blocks(page):
            where = f"{page.name}:{b.line}"
            if b.language == "text":
                outputs.append((b, printed))
            elif b.code.startswith(NOT_RUN):
                printed = ""
            elif m := _FILE.match(b.code):
                (directory / m[1]).write_text(b.code)
            elif b.language == "toml":
                _install(b.code, directory)
            elif b.language == "bash":
                printed = _stable(_bash(b.code, directory, shell, where))
            else:
                printed = _stable(_python(b, page, names, where))
    finally:
        os.chdir(here)
        sys.path.remove(str(directory))
    return outputs


def environment(directory: Path) -> dict[str, str]:
    programs = directory / ".bin"
    programs.mkdir()
    for name, arguments in (("eqsat", "-m eqsat.cli"), ("python", "")):
        (programs / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        (programs / name).chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{directory}{os.pathsep}{ROOT}",
        "COLUMNS": "200",
        "PYTHONIOENCODING": "utf-8",
    }


def _commands(code: str) -> list[tuple[list[str], str]] | None:
    """Returns arguments and the file or "" of each line `eqsat ARGUMENTS > FILE`, or None if there are other lines."""
    out = []
    for line in code.splitlines():
        words = shlex.split(line, comments=True)
        arguments, file = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
        if arguments[:1] != ["eqsat"] or re.search(r"[|&;<>$`\\]", " ".join(arguments)):
            return None
        out.append((arguments[1:], file))
    return out


def _bash(code: str, directory: Path, shell: dict[str, str], where: str) -> str:
    if (ours := _commands(code)) is not None:
        return "".join(_eqsat(arguments, file, shell, where) for arguments, file in ours)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code], cwd=directory, env=shell, capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise BlockError(f"{where}: exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def _eqsat(arguments: list[str], file: str, shell: dict[str, str], where: str) -> str:
    from eqsat.cli.app import app

    before = sys.argv, list(sys.path)
    done = CliRunner().invoke(app, arguments, env=shell)
    sys.argv, sys.path[:] = before
    if done.exit_code:
        raise BlockError(f"{where}: exit code {done.exit_code}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    if file:
        Path(file).write_text(done.stdout, encoding="utf-8")
    return "" if file else done.stdout


def _python(block: CodeBlock, page: Path, names: dict[str, Any], where: str) -> str:
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile("\n" * (block.line - 1) + block.code, str(page), "exec"), names)
    except Exception as e:
        raise BlockError(f"{where}: {type(e).__name__}: {e}") from e
    return out.getvalue()


def _install(code: str, directory: Path) -> None:
    """The package's metadata, where Python looks for that of installed packages."""
    project = tomllib.loads(code)["project"]
    info = directory / f"{project['name'].replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 1.0\n")
    groups = project["entry-points"].items()
    (info / "entry_points.txt").write_text(
        "".join(f"[{g}]\n" + "".join(f"{k} = {v}\n" for k, v in e.items()) for g, e in groups)
    )


def _stable(text: str) -> str:
    lines = [line.rstrip() for line in text.splitlines() if not line.startswith(_VOLATILE)]
    return "\n".join(lines).strip("\n") + "\n"


def check(page: Path, directory: Path) -> None:
    """Runs a page and compares what its blocks print. Raises BlockError."""
    for block, printed in run(page, directory):
        if block.code != printed:
            raise BlockError(
                f"{page.name}:{block.line}: the page says\n{block.code}\nbut it prints\n{printed}\n"
                f"If that is right: python -m docs.blocks {page}"
            )


def update(page: Path, directory: Path) -> None:
    """Runs a page and writes what its blocks print into it. Raises BlockError."""
    outputs = run(page, directory)
    text = page.read_text(encoding="utf-8")
    for block, printed in reversed(outputs):
        text = text[: block.start] + printed + text[block.end :]
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for name in sys.argv[1:]:
        with tempfile.TemporaryDirectory() as made:
            update(Path(name).resolve(), Path(made))
