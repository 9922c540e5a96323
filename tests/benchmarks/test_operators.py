"""The survey of operators and ExecuTorch's own Arm tests: tables are those of the records, and faults are seen."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from benchmarks import arm_tests, transpose_cases
from benchmarks.operators import run
from benchmarks.operators.__main__ import EVERY, TARGETS, table
from benchmarks.operators.cases import INSTEAD
from benchmarks.operators.run import differences
from benchmarks.study import RESULTS, read_lines
from eqsat.bench.lowering import prepare
from eqsat.executorch.partitioner import REMEDIES
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps, loads
from tests.graphs import transposed_relus

U55, U85 = TARGETS


@pytest.mark.slow
def test_what_stays_has_its_reason_and_its_remedy_and_a_wrong_integer_is_noticed(monkeypatch) -> None:
    def off_by_one(tosa: bytes) -> SimpleNamespace:
        graph = loads(tosa)
        wrong = lambda inputs: [y ^ 1 for y in graph.evaluate(inputs)]  # noqa: E731
        return SimpleNamespace(inputs=graph.inputs, type=graph.type, evaluate=wrong)

    monkeypatch.setattr(run, "loads", off_by_one)
    record = run.measure(EVERY["addcmul"], U55)
    assert {o["remedy"] for o in record["eqsat"]["left"]} == {REMEDIES["addcmul"]}
    assert all(o["reason"] for o in record["eqsat"]["left"])
    assert record["eqsat"]["cpu"] == record["stock"]["cpu"] != {}
    largest, share = record["eqsat"]["differences"]
    assert largest >= 1 and share > 0.5


def test_differences_are_in_steps_of_the_quantization() -> None:
    wanted = torch.tensor([0.0, 0.5, 1.0, 1.5])
    assert differences([[wanted]], [[wanted]], [0.5]) == (0, 0)
    assert differences([[wanted + torch.tensor([0.0, 0.0, 1.0, 0.0])]], [[wanted]], [0.5]) == (2, 0.25)
    assert differences([[torch.tensor([3])]], [[torch.tensor([4])]], [0.0]) == (1, 1)


def test_the_recorded_table_is_that_of_the_records() -> None:
    place = RESULTS / "operators"
    records, about = read_lines(place / "records.jsonl"), json.loads((place / "run.json").read_text())
    assert table(records, about) == (place / "table.md").read_text()
    measured = [(r["case"], r["target"]) for r in records]
    assert sorted(measured) == sorted(product({c for c, _ in measured} & set(EVERY), TARGETS))


def test_eqsat_leaves_nothing_to_the_cpu_that_stock_does_not_and_no_other_integers() -> None:
    for r in read_lines(RESULTS / "operators" / "records.jsonl"):
        stock, ours = r["stock"], r["eqsat"]
        assert "error" in stock or "error" not in ours, r["case"]
        if "cpu" in stock:
            assert sum(ours["cpu"].values()) <= sum(stock["cpu"].values()), r["case"]
            assert ours["differences"] == stock["differences"], r["case"]


def test_every_remedy_was_tried_and_leaves_nothing_to_the_cpu() -> None:
    ours = {(r["case"], r["target"]): r["eqsat"] for r in read_lines(RESULTS / "operators" / "records.jsonl")}
    for case, instead in INSTEAD.items():
        assert any(ours[case, t]["left"] for t in TARGETS), case
        assert [ours[instead, t]["cpu"] for t in TARGETS] == [{}, {}], instead
    told = {o["remedy"] for found in ours.values() for o in found.get("left", ())}
    assert told - {""} and told - {""} <= set(REMEDIES.values())


def test_the_recorded_table_of_arm_tests_is_that_of_the_records() -> None:
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
    limited = {"sram": [64, 65], "sram_limit": 64}
    for changed in ({"calibrated": [1, 2]}, limited, {"verified": False}, {"binary_verified": False}):
        assert len(arm_tests.faults([{**record, "delegates": [{**delegate, **changed}]}])) == 1, changed
    assert len(arm_tests.faults([{**record, "outcome": "failed", "alone": "passed"}])) == 1


@pytest.mark.slow
def test_a_case_of_the_wheel_is_lowered() -> None:
    """Stock keeps no TRANSPOSE of linear_rank2."""
    assert len(transpose_cases.cases()) == 36 and not hasattr(transpose_cases, "other")
    files, _ = prepare("benchmarks.transpose_cases:linear_rank2", "ethos-u85-256")
    explicit, stock = (loads(files[f"0.{kind}"]).op_counts().get("transpose", 0) for kind in ("explicit", "stock"))
    assert (explicit, stock) == (2, 0)
