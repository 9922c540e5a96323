"""The pictures of the worked example, from a real run.

python -m docs.pictures          # runs eqsat on examples/upscale.tosa, writes docs/pictures/*.svg
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from eqsat import runs
from eqsat.explain import explain, view
from eqsat.ground import drawing
from eqsat.ground.drawing import Look, Picture
from eqsat.report.compiled import Side, Sides
from eqsat.report.graphs import MOVING, marks, picture
from eqsat.runs import Run
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target

ROOT = Path(__file__).parent.parent
DIRECTORY = Path(__file__).parent / "pictures"
EXAMPLE, TARGET, NODE = ROOT / "examples" / "upscale.tosa", "ethos-u85-256", 15
_LOOK = Look(width=250, first=14, last=6, gap_x=10, gap_y=16)
#: Pixels between the graphs, and above them for their titles.
_GAP, _HEAD = 40, 30
_MOVING = ",".join(f".{op} rect" for op in MOVING if op != "rescale")
_STYLE = (
    "svg{background:#fff}text{font:11px sans-serif;text-anchor:middle}"
    ".caption{font-size:13px;font-weight:bold}.shape{font-size:9px;fill:#555}"
    f"rect{{fill:#eee;stroke:#999}}{_MOVING}{{fill:#dcebf7;stroke:#5b9bd5}}.gone rect{{fill:#f9c9c0;stroke:#c0504d}}"
    ".new rect{fill:#c8e6c9;stroke:#4c9a50}path{stroke:#888;fill:none}"
)


def pictures(run: Run) -> dict[str, str]:
    """File name -> SVG: the graph before and after side by side, and the candidates around a node in the e-graph."""
    sides = Sides.of(run)
    before, after = replace(sides.before[0], name="before"), replace(sides.after, name="after")
    marked = zip((before, after), marks(before.graph, after.graph), ("gone", "new"), strict=True)
    return {
        "before-after.svg": drawing.svg(_beside([_titled(*one) for one in marked]), _STYLE) + "\n",
        "alternatives.svg": view.svg(view.region(run, NODE, 1), explain(run).position(NODE)),
    }


def _titled(side: Side, marked: set[int], word: str) -> Picture:
    """Returns a graph below its name and calibrated cycles, to which those of its operators add up."""
    drawn = picture(side.graph, marked, word, side.facts(), _LOOK)
    title = f"{side.name}: {side.figures.calibrated:,} cycles"
    head = f'<text class="caption" x="{drawn.width / 2:.0f}" y="20">{title}</text>'
    elements = f'{head}<g transform="translate(0 {_HEAD})">{drawn.elements}</g>'
    return Picture(elements, drawn.width, drawn.height + _HEAD)


def _beside(columns: list[Picture]) -> Picture:
    left, out = 0.0, []
    for column in columns:
        out.append(f'<g transform="translate({left:.0f} 0)">{column.elements}</g>')
        left += column.width + _GAP
    return Picture("".join(out), left - _GAP, max(c.height for c in columns))


def main() -> None:
    result = optimize_tosa(EXAMPLE.read_bytes(), Target.of(TARGET), name=EXAMPLE.name)
    assert isinstance(result.run, runs.Run)
    for name, text in pictures(result.run).items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
