"""Graphs as SVG: boxes with text in rows, edges from the top down, for pages without a network and scripts.

>>> picture = draw({0: Box([Text("conv2d")]), 1: Box([Text("clamp")], "new")}, [Edge(0, 1)], Look())
>>> picture.height, svg(picture).count("<rect")
(91.0, 2)

The row of a box is its longest path from above; networkx finds the rows.
The order within a row is by the mean place of the neighbours (Sugiyama's heuristic).
No layout library fits: Graphviz and ELK need a binary or node, igraph and grandalf are under copyleft licences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape

import networkx as nx

#: Passes over all rows, down and up in turn, that order the boxes of each.
_SWEEPS = 4
#: {box: (x, y) of its left upper corner, in pixels}.
Places = dict[int, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Text:
    """A line of a box; kind: its class in the style sheet."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Box:
    """A box of text.

    kind: its classes in the style sheet
    note: text that is shown while the pointer is on it
    data: attributes `data-...` by which a page's script finds it
    """

    lines: Sequence[Text]
    kind: str = ""
    note: str = ""
    data: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Edge:
    """An edge between two boxes.

    kind: its class in the style sheet
    weak: whether the layout ignores it if it would close a cycle
    """

    source: int
    target: int
    kind: str = ""
    weak: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Sizes in pixels.

    width       : of a box
    line        : between baselines of its text
    first       : from the top of a box to its first baseline
    last        : from the last baseline to the bottom
    gap_x, gap_y: between boxes, and around all
    centred     : whether text is centred within boxes
    """

    width: int = 132
    line: int = 12
    first: int = 13
    last: int = 5
    gap_x: int = 12
    gap_y: int = 22
    centred: bool = True

    def height(self, box: Box) -> int:
        return self.first + self.line * (len(box.lines) - 1) + self.last


@dataclass(frozen=True, slots=True)
class Picture:
    """SVG elements and their size in pixels."""

    elements: str
    width: float
    height: float


def draw(boxes: Mapping[int, Box], edges: Iterable[Edge], look: Look) -> Picture:
    """Returns the picture of boxes, by number, and of the edges between them."""
    edges = list(edges)
    place = layout(boxes, edges, look)
    width = max((x for x, _ in place.values()), default=0.0) + look.width + look.gap_x
    height = max((y + look.height(boxes[k]) for k, (_, y) in place.items()), default=0.0) + look.gap_y
    paths = (_path(e, place, boxes, look) for e in sorted(edges, key=lambda e: not e.weak))
    return Picture("".join([*paths, *(_box(b, *place[k], look) for k, b in boxes.items())]), width, height)


def add_caption(picture: Picture, text: str) -> Picture:
    """Returns a picture with a line of text at its bottom."""
    foot = f'<text class="note" x="6" y="{picture.height - 6:.0f}">{escape(text)}</text>' if text else ""
    return Picture(picture.elements + foot, picture.width, picture.height)


def svg(picture: Picture, style: str = "", kind: str = "") -> str:
    """Returns the picture as an `<svg>` element with its own style sheet, and a class in that of the page."""
    width, height = f"{picture.width:.0f}", f"{picture.height:.0f}"
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    sheet = f"<style>{style}</style>" if style else ""
    return f'<svg xmlns="http://www.w3.org/2000/svg"{_class(kind)} {size}>{sheet}{picture.elements}</svg>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _path(e: Edge, place: Places, boxes: Mapping[int, Box], look: Look) -> str:
    (x, y), (ex, ey) = place[e.source], place[e.target]
    x, y, ex = x + look.width / 2, y + look.height(boxes[e.source]), ex + look.width / 2
    half = max(look.gap_y / 2, abs(ey - y) / 2)
    curve = f"M{x:.0f} {y:.0f}C{x:.0f} {y + half:.0f} {ex:.0f} {ey - half:.0f} {ex:.0f} {ey:.0f}"
    return f'<path{_class(e.kind)} d="{curve}"/>'


def _box(box: Box, x: float, y: float, look: Look) -> str:
    height, at = look.height(box), x + (look.width / 2 if look.centred else 6)
    note = f"<title>{escape(box.note)}</title>" if box.note else ""
    lines = "".join(
        f'<text{_class(t.kind)} xml:space="preserve" x="{at:.0f}" y="{y + look.first + look.line * i:.0f}">'
        f"{escape(t.text)}</text>"
        for i, t in enumerate(box.lines)
    )
    rect = f'<rect x="{x:.0f}" y="{y:.0f}" width="{look.width}" height="{height}" rx="4"/>'
    data = "".join(f' data-{name}="{escape(value)}"' for name, value in box.data.items())
    return f"<g{_class(box.kind)}{data}>{note}{rect}{lines}</g>"


# ---- layout -----------------------------------------------------------------------------------------


def layout(boxes: Mapping[int, Box], edges: Sequence[Edge], look: Look) -> Places:
    """Returns the left upper corners of the boxes."""
    graph = _acyclic(boxes, edges)
    rows = _rows(graph)
    at = {k: float(i) for row in rows for i, k in enumerate(row)}
    for sweep in range(_SWEEPS):
        near = graph.pred if sweep % 2 == 0 else graph.succ
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda k: sum(at[m] for m in near[k]) / len(near[k]) if near[k] else at[k])  # noqa: B023
            at.update((k, i - (len(row) - 1) / 2) for i, k in enumerate(row))
    left, top, place = min(at.values(), default=0.0), look.gap_y / 2, {}
    for row in rows:
        for k in row:
            place[k] = look.gap_x + (at[k] - left) * (look.width + look.gap_x), top
        top += max(look.height(boxes[k]) for k in row) + look.gap_y
    return place


def _acyclic(boxes: Mapping[int, Box], edges: Sequence[Edge]) -> nx.DiGraph:
    """Returns a graph of all edges that close no cycle; weak edges are added last."""
    graph = nx.DiGraph()
    graph.add_nodes_from(boxes)
    graph.add_edges_from((e.source, e.target) for e in edges if not e.weak)
    for e in edges:
        if e.weak and not nx.has_path(graph, e.target, e.source):
            graph.add_edge(e.source, e.target)
    return graph


def _rows(graph: nx.DiGraph) -> list[list[int]]:
    """Returns the rows of boxes, by the longest path from above; a box without one goes down to its readers."""
    rows = [list(row) for row in nx.topological_generations(graph)]
    number = {k: i for i, row in enumerate(rows) for k in row}
    for k in rows[0] if rows else ():
        if graph.succ[k]:
            number[k] = min(number[m] for m in graph.succ[k]) - 1
    out: list[list[int]] = [[] for _ in rows]
    for row in rows:
        for k in row:
            out[number[k]].append(k)
    return [row for row in out if row]
