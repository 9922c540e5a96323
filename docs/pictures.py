"""The pictures of the worked example, from a real run.

python -m docs.pictures          # runs eqsat on examples/upscale.tosa, writes docs/pictures/*.svg
"""

from __future__ import annotations

from html import escape
from pathlib import Path

from eqsat import runs
from eqsat.explain import explain, view
from eqsat.explain.cycles import by_node
from eqsat.report.graphs import MOVING, marks, shown
from eqsat.runs import Run
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa.flatbuffer import loads, tensor_names

ROOT = Path(__file__).parent.parent
DIRECTORY = Path(__file__).parent / "pictures"
EXAMPLE, TARGET, NODE = ROOT / "examples" / "upscale.tosa", "ethos-u85-256", 15
_WIDTH, _HEIGHT, _GAP, _TOP, _CYCLES = 250, 32, 16, 34, 64
_STYLE = (
    "text{font:11px sans-serif;text-anchor:middle}.h{font-size:13px;font-weight:bold}.s{font-size:9px;fill:#555}.c{text-anchor:end}"
    "rect{fill:#eee;stroke:#999}.moving rect{fill:#dcebf7;stroke:#5b9bd5}.gone rect{fill:#f9c9c0;stroke:#c0504d}"
    ".new rect{fill:#c8e6c9;stroke:#4c9a50}path{stroke:#888;fill:none}.b{fill:#fff;stroke:none}"
)


def pictures(run: Run) -> dict[str, str]:
    """File name -> SVG: the graph before and after side by side, and the candidates around a node in the e-graph."""
    before, after = loads(run.graphs["explicit"]), loads(run.graphs["chosen"])
    gone, new = marks(before, after)
    columns = [
        _column(before, run.tables["explicit"], run.graphs["explicit"], gone, "gone", "before", 0),
        _column(after, run.tables["eqsat"], run.graphs["chosen"], new, "new", "after", _WIDTH + _CYCLES + 40),
    ]
    width, height = 2 * (_WIDTH + _CYCLES) + 60, max(h for _, h in columns)
    both = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}"><style>{_STYLE}</style>'
        f'<rect class="b" style="fill:#fff;stroke:none" width="{width}" height="{height}"/>{"".join(c for c, _ in columns)}</svg>\n'
    )
    return {
        "before-after.svg": both,
        "alternatives.svg": view.svg(view.region(run, NODE, 1), explain(run).position(NODE)),
    }


def _column(
    graph: TensorGraph, rows, buffer: bytes, marked: set[int], word: str, title: str, left: int
) -> tuple[str, int]:
    cycles = by_node(graph, rows, tensor_names(buffer))
    nodes = shown(graph)
    middle, out = left + 10 + _WIDTH / 2, []
    for place, n in enumerate(nodes):
        node, top = graph.nodes[n], _TOP + place * (_HEIGHT + _GAP)
        if any(i not in nodes[place - 1 : place] for i in node.inputs if i in nodes):
            raise ValueError(f"n{n} does not read the node before it: this picture is for a chain")
        attrs = dict(node.attrs)
        label = f"{node.op} {list(attrs['perms'])}" if node.op == "transpose" else node.op
        kind = word if n in marked else "moving" if node.op in MOVING and node.op != "rescale" else "other"
        if place:
            out.append(f'<path d="M{middle:.0f} {top - _GAP}V{top}"/>')
        out.append(
            f'<g class="{kind}"><rect x="{left + 10}" y="{top}" width="{_WIDTH}" height="{_HEIGHT}" rx="4"/>'
            f'<text x="{middle:.0f}" y="{top + 14}">{escape(label)}</text>'
            f'<text class="s" x="{middle:.0f}" y="{top + 26}">{"×".join(map(str, node.shape))} {node.dtype.lower()}</text></g>'
        )
        if n in cycles:
            out.append(f'<text class="c" x="{left + _WIDTH + _CYCLES}" y="{top + 20}">{cycles[n]:,}</text>')
    out.append(
        f'<text class="h" x="{middle:.0f}" y="20">{title}: {sum(int(r["op_cycles"]) for r in rows):,} cycles</text>'
    )
    return "".join(out), _TOP + len(nodes) * (_HEIGHT + _GAP)


def main() -> None:
    result = optimize_tosa(EXAMPLE.read_bytes(), Target.of(TARGET), name=EXAMPLE.name)
    assert isinstance(result.run, runs.Run)
    for name, text in pictures(result.run).items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
