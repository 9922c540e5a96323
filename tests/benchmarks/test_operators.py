"""The survey of operators: what it counts, what it compares, and that its table is that of its records."""

from __future__ import annotations

import json
from itertools import product
from types import SimpleNamespace

import pytest
import torch

from benchmarks.operators import run
from benchmarks.operators.cases import INSTEAD
from benchmarks.operators.run import differences
from benchmarks.operators.survey import EVERY, TARGETS, table
from benchmarks.study import RESULTS, read_lines
from eqsat.executorch.remedies import REMEDIES
from eqsat.tosa import loads

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
