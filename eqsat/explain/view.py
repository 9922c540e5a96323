"""The e-graph as a picture: a box per class with its candidates and their cycles, as JSON, DOT or SVG.

Of a whole model it shows what the choice computes, straight runs of operators in one box; of a region, every class within a
distance of a node, whether chosen or not. Constants are left out, and long lists say how much they leave out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from typing import Any

import networkx as nx

from eqsat.explain.words import enode_text, type_text
from eqsat.search.run import Run

#: Candidates shown in a box, boxes in a region, characters in a line.
_CANDIDATES, _LARGEST, _LINE = 5, 120, 46
_WIDTH, _ROW, _GAP_X, _GAP_Y = 300, 14, 26, 34
_STYLE = (
    "text{font:10px monospace}.t{font-weight:bold}.y{font-weight:bold;fill:#00543d}.n{fill:#777}.c{fill:#e6f4ee;stroke:#009e73}"
    ".r{fill:#f6f6f6;stroke:#bbb}.s{fill:#fff3d6;stroke:#e69f00}path{fill:none;stroke:#009e73}.d{stroke:#ccc;stroke-dasharray:4 3}"
)


@dataclass(slots=True)
class Box:
    """A class, or a run of them. lines: (candidate, cycles, chosen); hidden: candidates left out."""

    title: str
    lines: list[tuple[str, float, bool]]
    chosen: bool
    source: bool
    hidden: int = 0
    classes: list[int] = field(default_factory=list)


@dataclass(slots=True)
class View:
    """Boxes by number and edges (operand, reader, whether the choice has it)."""

    boxes: dict[int, Box]
    edges: list[tuple[int, int, bool]]
    left_out: int = 0


def whole(run: Run) -> View:
    """The model as chosen: straight runs of operators in one box, rejected candidates counted."""
    view = _view(run, run.choices.of_classes(run.choice))
    for box in view.boxes.values():
        box.hidden += len(box.lines) - 1
        box.lines = box.lines[:1]
    view.edges = [e for e in view.edges if e[2]]
    _join_runs(view)
    return view


def region(run: Run, node: int, radius: int = 2) -> View:
    """The classes within `radius` edges of a node of the source, any candidate's edges. Raises KeyError for a node that is in no class."""
    position = {c: i for i, c in enumerate(run.choices.classes)}
    seen = {position[run.choices.frozen.handle[node]]}
    near: dict[int, set[int]] = {}
    for candidate in run.choices.candidates:
        cls = candidate.cls
        for c in candidate.operands:
            near.setdefault(cls, set()).add(c)
            near.setdefault(c, set()).add(cls)
    border, left_out = set(seen), 0
    for _ in range(radius):
        border = {c for b in border for c in near.get(b, ()) if not _constant(run, c)} - seen
        kept = sorted(border, key=lambda c: (c not in run.choice, c))[: max(0, _LARGEST - len(seen))]
        left_out += len(border) - len(kept)
        border = set(kept)
        seen |= border
    view = _view(run, seen)
    view.left_out = left_out
    return view


def _constant(run: Run, cls: int) -> bool:
    return any(e.op == "const" for e in run.choices.frozen.classes[run.choices.classes[cls]])


def _view(run: Run, wanted: Iterable[int]) -> View:
    choices = run.choices
    shown = sorted(c for c in wanted if not _constant(run, c))
    names: dict[int, list[int]] = {}
    for n, c in sorted(choices.frozen.handle.items()):
        names.setdefault(c, []).append(n)
    boxes, edges = {}, set()
    for c in shown:
        cls = choices.classes[c]
        nodes = sorted(
            choices.graph.class_nodes(c), key=lambda k: (run.choice.get(c) != k, choices.candidates[k].cycles)
        )
        label = ",".join(f"n{n}" for n in names.get(cls, [])[:3]) or f"c{c}"
        lines = [
            (enode_text(choices.candidates[k].enode), choices.candidates[k].cycles, run.choice.get(c) == k)
            for k in nodes[:_CANDIDATES]
        ]
        boxes[c] = Box(
            f"{label} {type_text(choices.frozen.types[cls])}",
            lines,
            c in run.choice,
            cls in names,
            len(nodes) - len(lines),
            [c],
        )
        for k in nodes[:_CANDIDATES]:
            edges |= {
                (o, c, run.choice.get(c) == k) for o in choices.candidates[k].operands if o in set(shown) and o != c
            }
    kept = {(a, b) for a, b, chosen in edges if chosen}
    return View(boxes, sorted(e for e in edges if e[2] or (e[0], e[1]) not in kept))


def _join_runs(view: View) -> None:
    """Puts a box into that of its only reader, if it is that one's only operand."""
    graph = nx.DiGraph((a, b) for a, b, _ in view.edges)
    into = {a: b for a, b in graph.edges if graph.out_degree(a) == 1 and graph.in_degree(b) == 1}
    if not into:
        return
    for run in nx.weakly_connected_components(nx.DiGraph(into.items())):
        order = list(nx.topological_sort(graph.subgraph(run)))
        boxes = [view.boxes.pop(c) for c in order]
        last = boxes[-1]
        view.boxes[order[-1]] = Box(
            f"{last.title} ({len(boxes)} in a row)",
            [b.lines[0] for b in boxes],
            last.chosen,
            last.source,
            sum(b.hidden for b in boxes),
            [c for b in boxes for c in b.classes],
        )
        view.edges = [(a, b, y) for a, b, y in view.edges if not (a in run and b in run)]
        view.edges = [(order[-1] if a in run else a, order[-1] if b in run else b, y) for a, b, y in view.edges]


# ---- writing ------------------------------------------------------------------------------------


def as_dict(view: View) -> dict[str, Any]:
    """The view as JSON holds it."""
    return {
        "boxes": [
            {
                "id": k,
                "title": b.title,
                "chosen": b.chosen,
                "source": b.source,
                "hidden": b.hidden,
                "candidates": [
                    {"op": t, "cycles": c if c < float("inf") else None, "chosen": y} for t, c, y in b.lines
                ],
            }
            for k, b in view.boxes.items()
        ],
        "edges": [list(e) for e in view.edges],
        "left_out": view.left_out,
    }


def _texts(box: Box) -> list[str]:
    out = []
    for text, cycles, chosen in box.lines:
        price = f"{cycles:,.0f}" if cycles < float("inf") else "refused"
        room = _LINE - len(price) - 3
        out.append(f"{'*' if chosen else ' '} {text if len(text) <= room else text[: room - 2] + '..':<{room}} {price}")
    return [*out, f"  {box.hidden} more candidates"] if box.hidden else out


def dot(view: View) -> str:
    """Graphviz' language."""

    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"')

    out = ["digraph egraph {", '  node [shape=box, fontname="monospace", fontsize=10, style=filled];']
    for k, b in view.boxes.items():
        label = "".join(quoted(t) + "\\l" for t in (b.title, *_texts(b)))
        out.append(f'  c{k} [label="{label}", fillcolor="{"#e6f4ee" if b.chosen else "#f6f6f6"}"];')
    out += [f"  c{a} -> c{b}{'' if chosen else ' [style=dashed, color=gray]'};" for a, b, chosen in view.edges]
    return "\n".join([*out, "}", ""])


def svg(view: View, mark: int | None = None) -> str:
    """A picture that a browser shows; `mark` is the box to colour."""
    place = _layout(view)
    width = max((x for x, _ in place.values()), default=0) + _WIDTH + _GAP_X
    height = max((y + _height(view.boxes[k]) for k, (_, y) in place.items()), default=0) + _GAP_Y
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
        f"<style>{_STYLE}</style>"
    ]
    for a, b, chosen in sorted(view.edges, key=lambda e: e[2]):
        (x, y), (u, v) = place[a], place[b]
        sx, sy, ex = x + _WIDTH / 2, y + _height(view.boxes[a]), u + _WIDTH / 2
        half = max(12.0, abs(v - sy) / 2)
        out.append(
            f'<path class="{"" if chosen else "d"}" d="M{sx:.0f} {sy:.0f}C{sx:.0f} {sy + half:.0f} {ex:.0f} {v - half:.0f} {ex:.0f} {v:.0f}"/>'
        )
    for k, box in view.boxes.items():
        x, y = place[k]
        kind = "s" if k == mark else "c" if box.chosen else "r"
        out.append(
            f'<rect class="{kind}" x="{x:.0f}" y="{y:.0f}" width="{_WIDTH}" height="{_height(box)}" rx="4"/>'
            f'<text class="t" x="{x + 6:.0f}" y="{y + 13:.0f}">{escape(box.title)}</text>'
        )
        for i, text in enumerate(_texts(box)):
            kind = "y" if text.startswith("*") else "n"
            out.append(
                f'<text class="{kind}" xml:space="preserve" x="{x + 6:.0f}" y="{y + 13 + _ROW * (i + 1):.0f}">{escape(text)}</text>'
            )
    if view.left_out:
        out.append(
            f'<text x="6" y="{height - 6:.0f}">{view.left_out} more classes at this distance are left out</text>'
        )
    return "".join(out) + "</svg>\n"


def _height(box: Box) -> int:
    return _ROW * (len(_texts(box)) + 1) + 8


def _layout(view: View) -> dict[int, tuple[float, float]]:
    """Left upper corners: rows by depth along chosen edges (then along all that make no cycle), in a row near the operands above."""
    graph = nx.DiGraph()
    graph.add_nodes_from(view.boxes)
    for chosen in (True, False):
        for a, b, c in view.edges:
            if c == chosen and (chosen or not nx.has_path(graph, b, a)):
                graph.add_edge(a, b)
    place: dict[int, tuple[float, float]] = {}
    top = float(_GAP_Y)
    for row in nx.topological_generations(graph):

        def wish(k: int) -> float:
            over = [place[a][0] for a in graph.predecessors(k) if a in place]
            return sum(over) / len(over) if over else 0.0

        step = _WIDTH + _GAP_X
        for i, k in enumerate(sorted(row, key=lambda k: (wish(k), k))):
            place[k] = ((i - (len(row) - 1) / 2) * step, top)
        top += max(_height(view.boxes[k]) for k in row) + _GAP_Y
    left = min((x for x, _ in place.values()), default=0.0) - _GAP_X
    return {k: (x - left, y) for k, (x, y) in place.items()}
