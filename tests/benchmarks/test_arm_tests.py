"""The study of ExecuTorch's own Arm tests: its table is that of its records, and what must not be is a fault."""

from __future__ import annotations

import json

from benchmarks import arm_tests
from benchmarks.study import RESULTS, read_lines
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from tests.graphs import transposed_relus


def test_the_recorded_table_is_that_of_the_records() -> None:
    place = RESULTS / "arm_tests"
    records, about = read_lines(place / "records.jsonl"), json.loads((place / "run.json").read_text())
    told = (line for line in (place / "table.md").read_text().splitlines() if line.startswith(("* ", "| cases")))
    assert set(told) <= set(arm_tests.table(records, about).splitlines())
    assert len(arm_tests.faults(records)) == 2, "the page tells of them"


def test_what_must_not_be_is_a_fault() -> None:
    given = dumps(transposed_relus())
    delegate = arm_tests._told(optimize_tosa(given, "ethos-u55-128", stock=given, options=Options(effort=0)))
    record = {"case": "ops/a", "outcome": "passed", "error": "", "delegates": [delegate]}
    assert arm_tests.faults([record]) == []
    for changed in (
        {"calibrated": [1, 2]},
        {"sram": [64, 65], "sram_limit": 64},
        {"verified": False},
        {"binary_verified": False},
    ):
        assert len(arm_tests.faults([{**record, "delegates": [{**delegate, **changed}]}])) == 1, changed
    assert len(arm_tests.faults([{**record, "outcome": "failed", "alone": "passed"}])) == 1
