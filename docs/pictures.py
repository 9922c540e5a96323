"""The pictures of the worked example, from a real run.

python -m docs.pictures          # runs eqsat on examples/upscale.tosa, writes docs/pictures/*.svg
"""

from __future__ import annotations

from pathlib import Path

from eqsat import runs
from eqsat.explain import explain, view
from eqsat.explain.cycles import by_node
from eqsat.ground import drawing
from eqsat.ground.drawing import Edge, Look, Picture
from eqsat.report.graphs import MOVING, box, marks, shown
from eqsat.runs import Run
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads, tensor_names

ROOT = Path(__file__).parent.parent
DIRECTORY = Path(__file__).parent / "pictures"
EXAMPLE, TARGET, NODE = ROOT / "examples" / "upscale.tosa", "ethos-u85-256", 15
_LOOK = Look(width=250, first=14, last=6, gap_x=10, gap_y=16, aside=64)
_MOVING = ",".join(f".{op} rect" for op in MOVING if op != "rescale")
_STYLE = (
    "svg{background:#fff}text{font:11px sans-serif;text-anchor:middle}.caption{font-size:13px;font-weight:bold}.shape{font-size:9px;fill:#555}"
    f".aside{{text-anchor:end}}rect{{fill:#eee;stroke:#999}}{_MOVING}{{fill:#dcebf7;stroke:#5b9bd5}}.gone rect{{fill:#f9c9c0;stroke:#c0504d}}"
    ".new rect{fill:#c8e6c9;stroke:#4c9a50}path{stroke:#888;fill:none}"
)


def pictures(run: Run) -> dict[str, str]:
    """File name -> SVG: the graph before and after side by side, and the candidates around a node in the e-graph."""
    before, after = loads(run.graphs["explicit"]), loads(run.graphs["chosen"])
    gone, new = marks(before, after)
    columns = [
        _column(before, run.tables["explicit"], run.graphs["explicit"], gone, "gone", "before"),
        _column(after, run.tables["eqsat"], run.graphs["chosen"], new, "new", "after"),
    ]
    return {
        "before-after.svg": drawing.svg(drawing.beside(columns, 40), _STYLE) + "\n",
        "alternatives.svg": view.svg(view.region(run, NODE, 1), explain(run).position(NODE)),
    }


def _column(graph: TensorGraph, rows, buffer: bytes, marked: set[int], word: str, title: str) -> Picture:
    cycles = by_node(rows, tensor_names(buffer))
    nodes = shown(graph)
    boxes = {n: box(graph, n, word if n in marked else "", f"{cycles[n]:,}" if n in cycles else "") for n in nodes}
    edges = [Edge(i, n) for n in nodes for i in graph.nodes[n].inputs if i in boxes]
    total = sum(r.cycles for r in rows)
    return drawing.captioned(drawing.draw(boxes, edges, _LOOK), above=f"{title}: {total:,} cycles")


def main() -> None:
    result = optimize_tosa(EXAMPLE.read_bytes(), Target.of(TARGET), name=EXAMPLE.name)
    assert isinstance(result.run, runs.Run)
    for name, text in pictures(result.run).items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
