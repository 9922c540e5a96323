"""Pictures of graphs: nothing collides, edges point down, and what is text stays text."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eqsat.ground.drawing import Box, Edge, Look, Text, beside, captioned, draw, layout, svg
from eqsat.report import graphs
from tests.graphs import channel_shuffle, residual

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


def test_an_input_stands_above_its_first_reader() -> None:
    chain = [Edge(0, 1), Edge(1, 2), Edge(3, 2)]
    place = layout({k: Box([Text("t")]) for k in range(4)}, chain, LOOK)
    assert place[3][1] == place[1][1]


def test_weak_edges_may_close_a_cycle() -> None:
    place = layout(
        {k: Box([Text("t")]) for k in range(3)}, [Edge(0, 1), Edge(1, 0, weak=True), Edge(1, 2, weak=True)], LOOK
    )
    assert place[0][1] < place[1][1] < place[2][1]


def test_text_is_escaped_and_the_picture_is_well_formed() -> None:
    box = Box([Text("a<b & c", "big")], "kind", 'say "hi"', "7")
    root = ElementTree.fromstring(svg(captioned(draw({0: box}, [], LOOK), "a > b", "c & d"), "text{fill:red}", "graph"))
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert texts == ["a > b", "a<b & c", "7", "c & d"] and root.attrib["class"] == "graph"
    assert [e.text for e in root.iter() if e.tag.endswith("title")] == ['say "hi"']


def test_pictures_side_by_side() -> None:
    one = draw({0: Box([Text("t")])}, [], LOOK)
    both = beside([one, one], 40)
    assert both.width == 2 * one.width + 40 and both.height == one.height and svg(both).count("<rect") == 2


@pytest.mark.parametrize("make", [channel_shuffle, residual])
def test_every_operand_stands_above_its_reader(make) -> None:
    g = make()
    nodes = graphs.shown(g)
    edges = [Edge(m, n) for n in nodes for m in g.nodes[n].inputs if m in nodes]
    place = layout({n: graphs.box(g, n, "") for n in nodes}, edges, LOOK)
    assert all(place[e.source][1] < place[e.target][1] for e in edges)
