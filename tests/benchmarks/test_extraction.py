"""The benchmark: graphs of saved delegates are extracted and compared in a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.extraction.__main__ import STUDY, instances
from benchmarks.study import read_lines
from eqsat import runs
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from extraction import ChoiceGraph, check, extract
from extraction.io import write_gym
from tests.graphs import channel_shuffle

pytestmark = pytest.mark.slow


def test_saved_graphs_are_extracted_once_and_shown_in_a_table(tmp_path: Path) -> None:
    graphs, out = tmp_path / "graphs", tmp_path / "out"
    graphs.mkdir()
    result = optimize_tosa(dumps(channel_shuffle()), "ethos-u55-128", options=Options(effort=1))
    runs.save(result.run_or_error(), graphs / "pixel_shuffle")
    write_gym(ChoiceGraph.build([[(2, [1]), (5, [])], [(1, [])]], [0]), graphs / "gym.json.gz")
    (graphs / "known_values.json").write_text(json.dumps({"gym": {"cbc_time_900": [4.0, 3.0]}}))
    asked = [str(graphs), "--extractors", "portfolio", "--time-limit", "5", "--out", str(out)]
    assert STUDY.main(asked) == 0
    records = read_lines(out / "records.jsonl")
    assert STUDY.main(asked) == 0 and read_lines(out / "records.jsonl") == records, "the cells are there already"
    by_name = {r["instance"]: r for r in records}
    (saved,) = (i for i in instances(graphs) if i.name == "pixel_shuffle")
    found = extract(saved.load())
    assert by_name[saved.name]["cost"] == found.cost == check(saved.load(), found.choice)
    assert (by_name["gym"]["cost"], by_name["gym"]["status"]) == (3, "optimal")
    text = (out / "table.md").read_text()
    assert "best published open-source value reached in 900 s: 1 below, 0 equal, 0 above" in text
    assert "- `portfolio`: 100.0% proved optimal; " in text
    with pytest.raises(SystemExit, match="no_such_method"):
        STUDY.main([str(graphs), "--extractors", "no_such_method", "--out", str(tmp_path / "other")])
