"""The benchmark: graphs of saved delegates are extracted and compared in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction import run, table
from eqsat import runs
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from extraction import ChoiceGraph, check, extract
from extraction.io import write_gym
from tests.graphs import channel_shuffle

pytestmark = pytest.mark.slow


def test_saved_graphs_are_extracted_once_and_shown_in_a_table(tmp_path: Path) -> None:
    graphs = tmp_path / "graphs"
    graphs.mkdir()
    result = optimize_tosa(dumps(channel_shuffle()), "ethos-u55-128", options=Options(effort=1))
    runs.save(result.run_or_error(), graphs / "pixel_shuffle")
    write_gym(ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], [0]), graphs / "gym.json.gz")
    for _ in range(2):
        said: list[str] = []
        records = run.run_all(graphs, ["portfolio"], 5.0, [0], tmp_path / "out.json", say=said.append)
    assert not said, "the cells are there already"
    by_name = {r["instance"]: r for r in records}
    (saved,) = (i for i in run.instances(graphs) if i.name == "pixel_shuffle")
    found = extract(saved.load())
    assert by_name[saved.name]["cost"] == found.cost == check(saved.load(), found.choice)
    assert (by_name["gym"]["cost"], by_name["gym"]["status"]) == (3, "optimal")
    text = table.markdown(records, json.loads('{"gym": {"cbc_time_900": [4.0, 3.0]}}'))
    assert "best published open-source value reached in 900 s: 1 below, 0 equal, 0 above" in text
