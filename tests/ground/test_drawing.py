"""Pictures of graphs: nothing collides, edges point down, and what is text stays text."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from eqsat.ground.drawing import Box, Edge, Look, Text, add_caption, draw, layout, svg

LOOK = Look()


@st.composite
def pictures(draw_: st.DrawFn) -> tuple[dict[int, Box], list[Edge]]:
    """Boxes of several heights, edges down, and weak ones any way."""
    n = draw_(st.integers(1, 12))
    boxes = {k: Box([Text("t")] * draw_(st.integers(1, 4))) for k in range(n)}
    pairs = draw_(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    weak = draw_(st.sets(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=8))
    edges = [Edge(a, b) for a, b in pairs if a < b]
    return boxes, edges + [Edge(a, b, weak=True) for a, b in weak - pairs if a != b]


@given(pictures())
def test_boxes_do_not_overlap_and_edges_point_down(picture: tuple[dict[int, Box], list[Edge]]) -> None:
    boxes, edges = picture
    place = layout(boxes, edges, LOOK)
    assert place.keys() == boxes.keys()
    for a, (x, y) in place.items():
        for b, (u, v) in place.items():
            apart = abs(x - u) >= LOOK.width or y + LOOK.height(boxes[a]) <= v or v + LOOK.height(boxes[b]) <= y
            assert a == b or apart
    for e in edges:
        assert e.weak or place[e.source][1] + LOOK.height(boxes[e.source]) < place[e.target][1]
    drawn = draw(boxes, edges, LOOK)
    assert all(x + LOOK.width <= drawn.width for x, _ in place.values())
    assert all(y + LOOK.height(boxes[k]) <= drawn.height for k, (_, y) in place.items())


def test_text_is_escaped_and_the_picture_is_well_formed() -> None:
    box = Box([Text("a<b & c", "big")], "kind", 'say "hi"')
    root = ElementTree.fromstring(svg(add_caption(draw({0: box}, [], LOOK), "c & d"), "text{fill:red}", "graph"))
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert texts == ["a<b & c", "c & d"] and root.attrib["class"] == "graph"
    assert [e.text for e in root.iter() if e.tag.endswith("title")] == ['say "hi"']
