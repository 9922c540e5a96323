"""The e-graph as a picture: a box per class with its candidates and their cycles, as JSON or SVG.

The view of a whole model shows the choice, with chains of operators in one box.
The view of a region shows every class within a distance of a node, chosen or not.
Constants are left out, and long lists tell how many entries they leave out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import networkx as nx

from eqsat.explain.words import enode_text, type_text
from eqsat.ground import drawing
from eqsat.ground.drawing import Edge, Look
from eqsat.search.run import Run

#: Most candidates in a box.
_CANDIDATES = 5
#: Most boxes in a region.
_LARGEST = 120
#: Most characters in a line.
_LINE = 46
#: Sizes of the picture, in pixels.
_LOOK = Look(width=300, line=14, first=13, last=9, gap_x=26, gap_y=34, centred=False)
_STYLE = (
    "text{font:10px monospace}.title{font-weight:bold}.yes{font-weight:bold;fill:#00543d}.no{fill:#777}"
    ".chosen rect{fill:#e6f4ee;stroke:#009e73}.rejected rect{fill:#f6f6f6;stroke:#bbb}"
    ".source rect{fill:#fff3d6;stroke:#e69f00}path{fill:none;stroke:#009e73}"
    "path.rejected{stroke:#ccc;stroke-dasharray:4 3}"
)


@dataclass(frozen=True, slots=True)
class Alternative:
    """A candidate of a class; cycles: None if it is refused."""

    op: str
    cycles: float | None
    chosen: bool


@dataclass(slots=True)
class ClassBox:
    """A class, or a chain of classes.

    chosen: whether the choice has the class.
    source: whether a node of the source is in the class.
    hidden: number of candidates that are left out.
    """

    id: int
    title: str
    chosen: bool
    source: bool
    hidden: int
    candidates: list[Alternative]


@dataclass(slots=True)
class View:
    """Boxes with edges between them.

    edges: (operand, reader, whether the choice has the edge).
    left_out: number of classes that are left out.
    """

    boxes: list[ClassBox]
    edges: list[tuple[int, int, bool]]
    left_out: int = 0


def whole(run: Run) -> View:
    """Returns the view of the chosen model, with a box per chain of operators.

    Rejected candidates are only counted.
    """
    view = _view(run, run.choices.of_classes(run.choice))
    for box in view.boxes:
        box.hidden += len(box.candidates) - 1
        box.candidates = box.candidates[:1]
    view.edges = [e for e in view.edges if e[2]]
    _join_runs(view)
    return view


def region(run: Run, node: int, radius: int = 2) -> View:
    """Returns the view of the classes within `radius` edges of a node of the source.

    Edges of all candidates count.
    Raises KeyError for a node that is in no class.
    """
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
    """Returns the view of these classes."""
    choices = run.choices
    shown = sorted(c for c in wanted if not _constant(run, c))
    names: dict[int, list[int]] = {}
    for n, c in sorted(choices.frozen.handle.items()):
        names.setdefault(c, []).append(n)
    boxes, edges = [], set()
    for c in shown:
        cls = choices.classes[c]
        nodes = sorted(
            choices.graph.class_nodes(c), key=lambda k: (run.choice.get(c) != k, choices.candidates[k].cycles)
        )
        label = ",".join(f"n{n}" for n in names.get(cls, [])[:3]) or f"c{c}"
        found = [(choices.candidates[k], run.choice.get(c) == k) for k in nodes[:_CANDIDATES]]
        told = [Alternative(enode_text(k.enode), k.cycles if k.cycles < math.inf else None, yes) for k, yes in found]
        title = f"{label} {type_text(choices.frozen.types[cls])}"
        boxes.append(ClassBox(c, title, c in run.choice, cls in names, len(nodes) - len(told), told))
        for k in nodes[:_CANDIDATES]:
            edges |= {
                (o, c, run.choice.get(c) == k) for o in choices.candidates[k].operands if o in set(shown) and o != c
            }
    kept = {(a, b) for a, b, chosen in edges if chosen}
    return View(boxes, sorted(e for e in edges if e[2] or (e[0], e[1]) not in kept))


def _join_runs(view: View) -> None:
    """Merges each box into that of its only reader, if it is the reader's only operand."""
    graph = nx.DiGraph((a, b) for a, b, _ in view.edges)
    into = {a: b for a, b in graph.edges if graph.out_degree(a) == 1 and graph.in_degree(b) == 1}
    if not into:
        return
    boxes = {box.id: box for box in view.boxes}
    for run in nx.weakly_connected_components(nx.DiGraph(into.items())):
        joined = [boxes.pop(c) for c in nx.topological_sort(graph.subgraph(run))]
        last = joined[-1]
        title = f"{last.title} ({len(joined)} in a row)"
        first = [b.candidates[0] for b in joined]
        boxes[last.id] = replace(last, title=title, candidates=first, hidden=sum(b.hidden for b in joined))
        view.edges = [(a, b, y) for a, b, y in view.edges if not (a in run and b in run)]
        view.edges = [(last.id if a in run else a, last.id if b in run else b, y) for a, b, y in view.edges]
    view.boxes = list(boxes.values())


# ---- writing ------------------------------------------------------------------------------------


def _texts(box: ClassBox) -> list[str]:
    out = []
    for c in box.candidates:
        price, text = "refused" if c.cycles is None else f"{c.cycles:,.0f}", c.op
        room = _LINE - len(price) - 3
        out.append(
            f"{'*' if c.chosen else ' '} {text if len(text) <= room else text[: room - 2] + '..':<{room}} {price}"
        )
    return [*out, f"  {box.hidden} more candidates"] if box.hidden else out


def svg(view: View, mark: int | None = None) -> str:
    """Returns the view as SVG; `mark` is the box to colour."""
    boxes = {b.id: _drawn(b, "source" if b.id == mark else "chosen" if b.chosen else "rejected") for b in view.boxes}
    edges = [Edge(a, b, "" if chosen else "rejected", weak=not chosen) for a, b, chosen in view.edges]
    left_out = f"{view.left_out} more classes at this distance are left out" if view.left_out else ""
    return drawing.svg(drawing.captioned(drawing.draw(boxes, edges, _LOOK), left_out), _STYLE) + "\n"


def _drawn(box: ClassBox, kind: str) -> drawing.Box:
    lines = [drawing.Text(t, "yes" if t.startswith("*") else "no") for t in _texts(box)]
    return drawing.Box([drawing.Text(box.title, "title"), *lines], kind)
