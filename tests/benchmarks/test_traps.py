"""The hunt for traps: it finds the one that is known, changes change no result, and the recorded table is that of its
findings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.about import read_lines
from benchmarks.traps.__main__ import finding_of
from benchmarks.traps.causes import CAUSES, cause_of
from benchmarks.traps.graphs import CHANGES, GRAPHS, UNCHANGED
from benchmarks.traps.hunt import findings, unexplained
from benchmarks.traps.table import table
from eqsat.ground.worker import Pool, Worker
from eqsat.target import Target
from eqsat.tensor.types import GraphError
from eqsat.tosa.flatbuffer import dumps
from eqsat.tosa.reference import compare

RECORDED = Path(__file__).parent.parent.parent / "benchmarks/results/traps"
ONE = "products of INT8 by one of each channel"


def test_changes_leave_the_result_as_it_is(worker: Worker) -> None:
    compared = 0
    for name in (ONE, "maximum with one of each channel", "convolution 1x1", "sum over channels", "matmul"):
        graph = GRAPHS[name]((2, 4, 16), UNCHANGED)
        for change in CHANGES:
            try:
                changed = GRAPHS[name]((2, 4, 16), change)
            except GraphError:
                continue
            if dumps(changed) != dumps(graph):
                assert compare(graph, changed, worker, trials=1).equal, (name, change.name)
                compared += 1
    assert compared > 30


@pytest.mark.parametrize("target", ["ethos-u55-128", "ethos-u85-256"])
def test_the_hunt_finds_what_is_known(target: str, pool: Pool) -> None:
    found = list(findings(Target.of(target), pool, {name: GRAPHS[name] for name in (ONE, "clamp")}))
    broadcast = [f for f in found if cause_of(f) is CAUSES[0]]
    assert bool(broadcast) == (target == "ethos-u55-128")
    for f in broadcast:
        copied = f.change == "CLAMP to all values, behind the constant"
        assert not copied or f.before.corrected < f.after.corrected, "the corrected total does not have it"
        assert not copied or unexplained(f.before, f.after, lambda t: t.vela) > 0
    assert {f.graph for f in found} <= {ONE}, "a CLAMP by itself has no trap"


def test_the_recorded_table_is_that_of_the_findings() -> None:
    found = [finding_of(r) for r in read_lines(RECORDED / "findings.jsonl")]
    text, unknown = table(found, json.loads((RECORDED / "run.json").read_text()))
    assert text == (RECORDED / "table.md").read_text() and unknown == []
    assert {f.vela for f in found} == {"5.1.0", "5.2.0"}
    assert all(any(cause_of(f) is c for f in found) for c in CAUSES), "every cause has a finding"
