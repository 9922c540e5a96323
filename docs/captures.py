"""Animated captures of commands on a terminal, from real runs.

    python -m docs.captures                  # records all commands, writes docs/captures/*.svg
    python -m docs.captures compile          # records one

Two programs must be on the PATH: asciinema 2 records a terminal (PyPI: `asciinema==2.4.0`), and svg-term draws the
recording (npm: `svg-term-cli@2.1.1`).
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import tempfile
from itertools import accumulate, pairwise
from pathlib import Path
from xml.etree import ElementTree

from docs.blocks import ROOT, environment

DIRECTORY = Path(__file__).parent / "captures"
COLUMNS = 88
#: Name of a capture -> number of its rows, and its commands.
CAPTURES = {
    "optimize": (18, ["eqsat optimize examples/upscale.tosa --target ethos-u85-256 -o upscale.tosa"]),
    "compile": (22, ["eqsat compile benchmarks/models/pixel_shuffle.py:model -t ethos-u55-128 -o model.pte"]),
    "mistakes": (
        10,
        [
            f"eqsat compile benchmarks/models/pixel_shuffle.py:model -t ethos-u55-128 --memory-mode {mode} -o model.pte"
            for mode in ("Shared_SRAM", "Dedicated_Sram")
        ],
    ),
}
#: Seconds: the longest pause of a recording, the length of a capture, and for how long a state of the screen is shown.
_PAUSE, _LENGTH, _STATE = 2.0, 12.0, 0.4
#: What svg-term writes: names of XML, the size of its font, and of a row and a column.
_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_FONT, _ROW, _COLUMN = 1.67, 1.67 * 1.3, 1.67 * 0.6


def record(commands: list[str], rows: int) -> str:
    """Returns the recording of commands, run in an empty directory with an empty cache, as a file of asciinema."""
    with tempfile.TemporaryDirectory() as made:
        directory = Path(made)
        for name in ("examples", "benchmarks"):
            (directory / name).symlink_to(ROOT / name)
        shell = environment(directory) | {"TERM": "xterm-256color", "EQSAT_CACHE": str(directory / ".cache")}
        del shell["COLUMNS"]
        session = directory / ".session"
        session.write_text("\n".join(f"echo {shlex.quote(f'$ {c}')}\nsleep 1\n{c}" for c in commands))
        size = [f"--cols={COLUMNS}", f"--rows={rows}"]
        command = ["asciinema", "rec", "--quiet", *size, f"--command=bash {session}", str(directory / ".cast")]
        subprocess.run(command, cwd=directory, env=shell, check=True, stdin=subprocess.DEVNULL)
        return (directory / ".cast").read_text(encoding="utf-8")


def shorten(recording: str) -> str:
    """Returns a recording in which pauses are cut, and what remains is sped up to the length of a capture."""
    head, *events = (json.loads(line) for line in recording.splitlines())
    times = [time for time, _, _ in events]
    passed = list(accumulate((min(b - a, _PAUSE) for a, b in pairwise(times)), initial=0.0))
    speed = max(1.0, passed[-1] / _LENGTH)
    states: list[tuple[float, str]] = []
    for time, (_, _, text) in zip((p / speed for p in passed), events, strict=True):
        if states and time - states[-1][0] < _STATE:
            states[-1] = states[-1][0], states[-1][1] + text
        else:
            states.append((time, text))
    return "\n".join(json.dumps(line) for line in (head, *((time, "o", text) for time, text in states))) + "\n"


def draw(recording: str) -> str:
    """Returns the SVG of a recording. It plays once, then shows the last state of the screen.

    So does a viewer that shows no animation, or whose user wants none.
    """
    command = ["svg-term", "--no-cursor", "--padding=12"]
    drawn = subprocess.run(command, input=recording, check=True, capture_output=True, text=True).stdout
    drawn = re.sub(r'width="([\d.]+)" height="([\d.]+)"', r'\g<0> viewBox="0 0 \1 \2"', drawn, count=1)  # for scaling
    last = re.findall(r"translateX\(-\d+px\)", drawn)[-1]
    style = (
        f"<style>[style]{{transform:{last}}}@media (prefers-reduced-motion){{[style]{{animation:none!important}}}}"
        f"[style] svg svg{{width:{COLUMNS}px}}"  # the next state begins there, and characters may be a little wider
    )
    return drawn.replace("iteration-count:infinite", "iteration-count:1").replace("<style>", style, 1) + "\n"


def screen(svg: str) -> list[str]:
    """Returns the rows of the last state of the screen in an SVG of svg-term."""
    root = ElementTree.fromstring(svg)
    lines = {f"#{line.get('id')}": line for line in root.iter(f"{_SVG}symbol")}
    rows: dict[int, str] = {}
    for element in list(root.iter(f"{_SVG}svg"))[-1]:
        line = lines.get(element.get(_LINK, ""))
        for word in [element] if line is None else line:
            height = float(element.get("y", 0)) - (_FONT if line is None else 0)
            row, column = round(height / _ROW), round(float(word.get("x", 0)) / _COLUMN)
            rows[row] = rows.get(row, "").ljust(column) + (word.text or "")
    return [rows.get(row, "") for row in range(max(rows) + 1)]


def main() -> None:
    for name in sys.argv[1:] or CAPTURES:
        rows, commands = CAPTURES[name]
        (DIRECTORY / f"{name}.svg").write_text(draw(shorten(record(commands, rows))), encoding="utf-8")


if __name__ == "__main__":
    main()
