"""The benchmark: records, resuming, the table."""

import json
from pathlib import Path

import pytest

from benchmarks.extraction import join, run, table, zoo
from eqsat.bench.log import Record
from eqsat.tosa import dumps
from extraction import ChoiceGraph, check, extract
from extraction.io import save, write_gym
from tests.graphs import channel_shuffle

pytestmark = pytest.mark.slow

GRAPH = ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], [0])


@pytest.fixture
def graphs(tmp_path) -> Path:
    (tmp_path / "suite").mkdir()
    write_gym(GRAPH, tmp_path / "suite" / "a.json.gz")
    save(ChoiceGraph.build([[(2, [1])], [(1, [])]], [0], pair_costs={(0, 1): -1}), tmp_path / "suite" / "b.json")
    save(ChoiceGraph.build([[(1, [0])]], [0]), tmp_path / "suite" / "loop.json")
    (tmp_path / "known_values.json").write_text('{"a": {"cbc_time_900": [4.0, 3.0], "cplex": [3.0, 1.0]}}')
    return tmp_path


def run_here(graphs: Path, extractors: list[str]) -> list[Record]:
    return run.run_all(graphs, extractors, 5.0, [0], graphs / "out.json", say=lambda line: None)


def test_records_of_both_formats(graphs):
    records = {r["instance"]: r for r in run_here(graphs, ["portfolio"])}
    assert set(records) == {"suite/a", "suite/b", "suite/loop"}
    assert (records["suite/a"]["cost"], records["suite/a"]["status"]) == (3, "optimal")
    assert records["suite/b"]["cost"] == 2  # the pair term counts
    assert (records["suite/loop"]["cost"], records["suite/loop"]["status"]) == (None, "Infeasible")
    assert {"instance", "extractor", "cost", "lower_bound", "status", "seconds"} <= set(records["suite/b"])


def test_an_interrupted_run_goes_on(graphs, monkeypatch):
    cell, ran = run.run_cell, []

    def interrupted(*args):
        if ran:
            raise KeyboardInterrupt
        ran.append(args[0].name)
        return cell(*args)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(run, "run_cell", interrupted)
        run_here(graphs, ["tree_greedy"])
    monkeypatch.setattr(run, "run_cell", lambda *args: ran.append(args[0].name) or cell(*args))
    records = run_here(graphs, ["tree_greedy"])
    assert sorted(ran) == sorted(r["instance"] for r in records) == ["suite/a", "suite/b", "suite/loop"]
    assert sorted(p.name for p in graphs.iterdir()) == ["known_values.json", "out.json", "suite"]


def test_table_compares_with_open_source_runs_only(graphs):
    known = json.loads((graphs / "known_values.json").read_text())
    text = table.markdown(run_here(graphs, ["portfolio", "dag_greedy"]), known)
    assert "| suite/a | 3 | 3* |" in text
    assert "| 4 (3 s) | 3 (1 s) |" in text
    assert "`portfolio`: 2 of 3 proved optimal" in text
    assert "best published open-source value reached in 900 s: 1 below, 0 equal, 0 above" in text


def test_joined_graphs_cost_what_their_parts_cost():
    """The leaf of class 3 is farther than that of class 2, but not needed."""
    first = ChoiceGraph.build(
        [[(2, [1])], [(1, [2, 3]), (2, [2])], [(0, [])], [(0, [])]], [0], {(0, 1): -1, (0, 2): -1}
    )
    second = ChoiceGraph.build([[(5, [1])], [(4, [])]], [0])
    assert (join.farthest_leaf(first), join.farthest_leaf(second)) == (3, 1)
    graph = join.joined([first, second], 12)
    assert (graph.n_nodes, graph.roots) == (12, (0,))
    assert extract(graph).cost == 2 + 2 * 9 + 3 * 2


def test_a_joined_graph_is_written_and_extracted(graphs, tmp_path):
    for name in ("loop.json", "a.json.gz"):  # no choice; no leaf that every choice needs
        (graphs / "suite" / name).unlink()
    options = ["--graphs", str(graphs / "suite"), "--size", "60", "--out", str(tmp_path / "joined" / "60.json.gz")]
    join.main(options)
    (record,) = run.run_all(tmp_path / "joined", ["portfolio"], 5.0, [0], tmp_path / "out.json", say=lambda line: None)
    assert (record["instance"], record["n_nodes"], record["status"]) == ("60", 60, "optimal")
    assert record["peak_mib"][0] > 0


def test_graphs_saved_at_the_hook_point_become_choice_graphs(tmp_path):
    (tmp_path / "pixel_shuffle.0.ethos-u55-128.explicit.tosa").write_bytes(dumps(channel_shuffle()))
    options = [
        "--models",
        "pixel_shuffle",
        "--targets",
        "ethos-u55-128",
        "--tosa",
        str(tmp_path),
        "--out",
        str(tmp_path / "graphs"),
    ]
    zoo.main(options)
    (instance,) = run.instances(tmp_path / "graphs")
    assert instance.name == "pixel_shuffle.0.ethos-u55-128"
    graph = instance.load()
    found = extract(graph)
    assert found.status == "optimal" and 0 < found.cost == check(graph, found.choice)
    written = instance.path.stat().st_mtime_ns
    zoo.main(options)
    assert instance.path.stat().st_mtime_ns == written
