"""Outlines of graphs: all but the elements of constants."""

import json

from eqsat.report import graphs
from eqsat.runs.outline import drawn, outline
from tests.graphs import channel_shuffle, conv_graph, transposed_relus


def test_an_outline_draws_the_same_graph() -> None:
    for make in (transposed_relus, channel_shuffle, conv_graph):
        g = make()
        again = drawn(json.loads(json.dumps(outline(g))))
        assert graphs.svg(again, set(), "") == graphs.svg(g, set(), "") and again.op_counts() == g.op_counts()
        assert graphs.marks(g, again) == (set(), set())


def test_another_constant_is_another_node() -> None:
    first, second = conv_graph(), conv_graph()
    n = next(n for n in second.live() if second.nodes[n].op == "const")
    kept = outline(second)
    (pair,) = kept["nodes"][n][2]
    pair[1]["const"] = "0" * 32
    gone, new = graphs.marks(first, drawn(kept))
    assert gone and new and len(gone) == len(new)


def test_an_outline_has_no_elements() -> None:
    g = conv_graph()
    consts = [n for n in drawn(outline(g)).nodes if n.op == "const"]
    assert consts and all(n.attr("value").data.size == 0 for n in consts)
