"""Formats: what is written is read back; what is malformed is refused by name."""

import json

import numpy as np
import pytest
from hypothesis import given, settings

from extraction import ChoiceGraph, InvalidGraph, extract
from extraction.io import from_json, load, parse_gym, read_gym, save, to_json, write_gym
from tests.extraction.sample_graphs import choice_graphs
from tests.sweeps import examples


def same(a: ChoiceGraph, b: ChoiceGraph) -> bool:
    arrays = ("class_start", "node_class", "cost", "child_start", "child_index")
    rest = ("roots", "pair_costs", "forbidden", "forbidden_pairs", "per_reader", "names")
    return all(np.array_equal(getattr(a, f), getattr(b, f)) for f in arrays) and all(
        getattr(a, f) == getattr(b, f) for f in rest
    )


@settings(max_examples=examples(50), deadline=None)
@given(choice_graphs())
def test_own_format_keeps_everything(graph):
    assert same(from_json(json.loads(json.dumps(to_json(graph)))), graph)


@pytest.mark.parametrize("name", ["g.json", "g.json.gz"])
def test_files(tmp_path, name):
    g = ChoiceGraph.build([[(2.5, [1]), (5, [])], [(1, [])]], [0], pair_costs={(0, 2): -1}, names=["f", "g", "x"])
    save(g, tmp_path / name)
    assert same(load(tmp_path / name), g)
    plain = ChoiceGraph.build([[(2.5, [1]), (0, [])], [(1, [])]], [0], forbidden=[1], names=["f", "g", "x"])
    write_gym(plain, tmp_path / name)
    assert same(read_gym(tmp_path / name), plain)


def test_gym_children_are_nodes_that_stand_for_their_classes():
    g = parse_gym(
        {
            "root_eclasses": ["A"],
            "nodes": {
                "a": {"op": "f", "cost": 2, "eclass": "A", "children": ["y"]},
                "x": {"op": "x", "cost": 1, "eclass": "B", "children": []},
                "y": {"op": "y", "cost": 3, "eclass": "B", "children": []},
            },
        }
    )
    found = extract(g)
    assert found.cost == 3
    assert [g.name(n) for n in found.choice.values()] == ["f", "x"]


def test_stale_roots_are_refused_or_passed_over():
    data = {"root_eclasses": ["old", "A"], "nodes": {"a": {"op": "f", "cost": 2, "eclass": "A", "children": []}}}
    with pytest.raises(InvalidGraph, match="'old'"):
        parse_gym(data)
    assert parse_gym(data, skip_missing_roots=True).roots == (0,)


def test_refusals(tmp_path):
    with pytest.raises(InvalidGraph, match="version 1"):
        from_json({"format": "choice-graph", "version": 2})
    with pytest.raises(InvalidGraph, match="'missing'"):
        parse_gym({"root_eclasses": ["A"], "nodes": {"a": {"eclass": "A", "children": ["missing"]}}})
    with pytest.raises(InvalidGraph, match="no pair terms"):
        write_gym(ChoiceGraph.build([[(1, [1])], [(1, [])]], [0], {(0, 1): 1}), tmp_path / "x.json")
