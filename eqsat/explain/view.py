"""The e-graph as a picture, without constants: a box per class with its candidates and cycles, as JSON or SVG."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import networkx as nx

from eqsat.explain.record import enode_text, type_text
from eqsat.ground import drawing
from eqsat.ground.drawing import Edge, Look
from eqsat.search.result import Run

#: Most candidates in a box, most boxes in a region, and most characters in a line.
_CANDIDATES = 5
_LARGEST = 120
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


@dataclass(frozen=True, slots=True)
class ClassBox:
    """A class; `source`: whether a node of the source is in it; `hidden`: how many candidates are left out."""

    id: int
    title: str
    chosen: bool
    source: bool
    hidden: int
    candidates: list[Alternative]


@dataclass(frozen=True, slots=True)
class View:
    """Boxes, edges (operand, reader, whether the choice has the edge), and the number of classes that are left out."""

    boxes: list[ClassBox]
    edges: list[tuple[int, int, bool]]
    left_out: int = 0


def whole(run: Run) -> View:
    """Returns the view of the classes that the chosen model computes."""
    return _view(run, run.choices.of_classes(run.choice))


def region(run: Run, node: int, radius: int = 2) -> View:
    """Returns the view of all classes within `radius` edges of a source node. Raises KeyError if it is in no class."""
    place = {c: i for i, c in enumerate(run.choices.classes)}[run.choices.frozen.handle[node]]
    graph = nx.Graph((candidate.cls, c) for candidate in run.choices.candidates for c in candidate.operands)
    graph.add_node(place)
    graph.remove_nodes_from([c for c in graph if c != place and _constant(run, c)])
    distance = nx.single_source_shortest_path_length(graph, place, radius)
    near = sorted(distance, key=lambda c: (distance[c], c not in run.choice, c))
    return _view(run, near[:_LARGEST], len(near[_LARGEST:]))


def _constant(run: Run, cls: int) -> bool:
    return any(e.op == "const" for e in run.choices.frozen.classes[run.choices.classes[cls]])


def _view(run: Run, wanted: Iterable[int], left_out: int = 0) -> View:
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
    return View(boxes, sorted(e for e in edges if e[2] or (e[0], e[1]) not in kept), left_out)


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
    boxes = {b.id: _draw(b, "source" if b.id == mark else "chosen" if b.chosen else "rejected") for b in view.boxes}
    edges = [Edge(a, b, "" if chosen else "rejected", weak=not chosen) for a, b, chosen in view.edges]
    left_out = f"{view.left_out} more classes at this distance are left out" if view.left_out else ""
    return drawing.svg(drawing.add_caption(drawing.draw(boxes, edges, _LOOK), left_out), _STYLE) + "\n"


def _draw(box: ClassBox, kind: str) -> drawing.Box:
    lines = [drawing.Text(t, "yes" if t.startswith("*") else "no") for t in _texts(box)]
    return drawing.Box([drawing.Text(box.title, "title"), *lines], kind)
