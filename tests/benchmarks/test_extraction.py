"""The benchmark: graphs of saved delegates are extracted, joined and compared in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction import join, run, table, zoo
from eqsat.tosa import dumps
from extraction import ChoiceGraph, check, extract
from extraction.io import write_gym
from tests.graphs import channel_shuffle

pytestmark = pytest.mark.slow


def test_joined_graphs_cost_what_their_parts_cost() -> None:
    """The leaf of class 3 is farther than that of class 2, but not needed."""
    first = ChoiceGraph.build(
        [[(2, [1])], [(1, [2, 3]), (2, [2])], [(0, [])], [(0, [])]], [0], {(0, 1): -1, (0, 2): -1}
    )
    second = ChoiceGraph.build([[(5, [1])], [(4, [])]], [0])
    assert (join.farthest_leaf(first), join.farthest_leaf(second)) == (3, 1)
    graph = join.joined([first, second], 12)
    assert (graph.n_nodes, graph.roots) == (12, (0,))
    assert extract(graph).cost == 2 + 2 * 9 + 3 * 2


def test_saved_graphs_are_extracted_once_and_shown_in_a_table(tmp_path: Path) -> None:
    (tmp_path / "pixel_shuffle.0.ethos-u55-128.explicit.tosa").write_bytes(dumps(channel_shuffle()))
    graphs = tmp_path / "graphs"
    cell = ["--models", "pixel_shuffle", "--targets", "ethos-u55-128"]
    zoo.main([*cell, "--tosa", str(tmp_path), "--out", str(graphs)])
    write_gym(ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], [0]), graphs / "gym.json.gz")
    for _ in range(2):
        said: list[str] = []
        records = run.run_all(graphs, ["portfolio"], 5.0, [0], tmp_path / "out.json", say=said.append)
    assert not said, "the cells are there already"
    by_name = {r["instance"]: r for r in records}
    (saved,) = (i for i in run.instances(graphs) if i.name == "pixel_shuffle.0.ethos-u55-128")
    found = extract(saved.load())
    assert by_name[saved.name]["cost"] == found.cost == check(saved.load(), found.choice)
    assert (by_name["gym"]["cost"], by_name["gym"]["status"]) == (3, "optimal")
    text = table.markdown(records, json.loads('{"gym": {"cbc_time_900": [4.0, 3.0]}}'))
    assert "best published open-source value reached in 900 s: 1 below, 0 equal, 0 above" in text
