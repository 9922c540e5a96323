"""Formats: what is written is read back; what is malformed is refused by name."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from eqsat.options.options import Options
from eqsat.runs import save as save_run
from eqsat.search.optimizer import optimize_tosa
from extraction import ChoiceGraph, ExtractionError, InvalidGraph, dag_cost, extract
from extraction.io import from_json, load, parse_gym, read_gym, save, to_gym, to_json, write_gym
from tests.extraction.sample_graphs import choice_graphs
from tests.sweeps import examples

EXAMPLE = Path(__file__).parents[2] / "examples/upscale.tosa"


def same(a: ChoiceGraph, b: ChoiceGraph) -> bool:
    arrays = ("class_start", "node_class", "cost", "child_start", "child_index")
    rest = ("roots", "pair_costs", "forbidden", "names")
    alike = all(np.array_equal(getattr(a, f), getattr(b, f)) for f in arrays)
    return alike and all(getattr(a, f) == getattr(b, f) for f in rest)


@settings(max_examples=examples(50), deadline=None)
@given(choice_graphs())
def test_own_format_keeps_everything(graph):
    assert same(from_json(json.loads(json.dumps(to_json(graph)))), graph)


@pytest.mark.parametrize("name", ["g.json", "g.json.gz"])
def test_files(tmp_path, name):
    g = ChoiceGraph.build([[(2.5, [1]), (5, [])], [(1, [])]], [0], pair_costs={(0, 2): -1}, names=["f", "g", "x"])
    save(g, tmp_path / name)
    assert same(load(tmp_path / name), g)
    plain = ChoiceGraph.build([[(2.5, [1]), (0, [])], [(1, [])]], [0], names=["f", "g", "x"])
    assert write_gym(plain, tmp_path / name) == "nothing is left out"
    assert same(read_gym(tmp_path / name), plain)


def gym_cost(data: dict[str, Any], chosen: Mapping[str, str]) -> float:
    """Returns the cost of {class: e-node} as the public format defines it: each e-node that is reached, once.

    It reads the object by itself: ids are texts, children are ids of e-nodes, costs are finite.
    """
    nodes, seen, left = data["nodes"], set[str](), list(data["root_eclasses"])
    assert all(child in nodes for node in nodes.values() for child in node["children"])
    assert all(math.isfinite(node["cost"]) and isinstance(node["op"], str) for node in nodes.values())
    while left:
        if (c := left.pop()) not in seen:
            seen.add(c)
            assert nodes[chosen[c]]["eclass"] == c
            left += [nodes[child]["eclass"] for child in nodes[chosen[c]]["children"]]
    return sum(nodes[chosen[c]]["cost"] for c in seen)


def as_gym(data: dict[str, Any], choice: Mapping[int, int]) -> dict[str, str]:
    """Returns {class: e-node} of an object that `to_gym` made, for a choice of the graph."""
    stand_for = set(choice.values())
    return {
        node["eclass"]: i for i, node in data["nodes"].items() if int(i.rpartition(">")[2].rstrip("=")) in stand_for
    }


@settings(max_examples=50, deadline=None)
@given(choice_graphs())
def test_a_choice_costs_the_same_as_extraction_gym_reads_it(graph):
    try:
        found = extract(graph, "asp")
    except ExtractionError:
        return
    data = to_gym(graph)
    assert gym_cost(data, as_gym(data, found.choice)) == pytest.approx(found.cost)


def test_a_saved_run_is_exported_as_the_public_format_says(tmp_path):
    result = optimize_tosa(EXAMPLE.read_bytes(), "ethos-u55-128", options=Options(effort=1, remember=False))
    save_run(result, tmp_path / "run")
    graph = load(tmp_path / "run/choice-graph.json.gz")
    assert graph.pair_costs and graph.forbidden
    note = write_gym(graph, tmp_path / "gym.json")
    assert f"{len(graph.pair_costs)} pair terms are extra e-nodes" in note and "may not be chosen are left out" in note
    data = json.loads((tmp_path / "gym.json").read_text(), parse_constant=pytest.fail)
    assert data["note"] == note and min(node["cost"] for node in data["nodes"].values()) >= 0
    found = extract(graph, "asp")
    assert gym_cost(data, as_gym(data, found.choice)) == pytest.approx(found.cost)
    assert extract(read_gym(tmp_path / "gym.json"), "asp").cost == pytest.approx(found.cost)
    assert "pair terms are left out" in write_gym(graph, tmp_path / "plain.json", pair_terms=False)
    plain = extract(replace(graph, pair_costs={}), "asp").choice
    assert extract(read_gym(tmp_path / "plain.json"), "asp").cost == dag_cost(graph, plain)


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


@pytest.mark.parametrize(("key", "value"), [("forbidden_pairs", [[0, 1]]), ("per_reader", [1])])
def test_an_older_file_is_read_if_its_former_keys_are_empty(key, value):
    data = to_json(ChoiceGraph.build([[(1, [1])], [(1, [])]], [0]))
    assert key not in data and same(from_json(data | {key: []}), from_json(data))
    with pytest.raises(InvalidGraph, match=f'^this choice-graph has "{key}", which is no longer supported$'):
        from_json(data | {key: value})


def test_refusals():
    with pytest.raises(InvalidGraph, match="version 1"):
        from_json({"format": "choice-graph", "version": 2})
    with pytest.raises(InvalidGraph, match="'missing'"):
        parse_gym({"root_eclasses": ["A"], "nodes": {"a": {"eclass": "A", "children": ["missing"]}}})
    with pytest.raises(InvalidGraph, match="root class 0 has no e-node"):
        to_gym(ChoiceGraph.build([[(1, [1])], [(1, [])]], [0], forbidden=[1]))
