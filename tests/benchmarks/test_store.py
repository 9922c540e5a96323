"""The study of damaged stores."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import store


@pytest.mark.slow
def test_a_few_events(tmp_path: Path) -> None:
    assert store.main(["--events", "40", "--searches", "1", "--out", str(tmp_path)]) == 0
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert sum(r["events"] for r in records[:-1]) == 40 and all(r["wrong"] == 0 for r in records[:-1])
    assert sum(r["intact"] for r in records[:-1]) > 0 < sum(r["absent"] for r in records[:-1])
    assert sum(v for k, v in records[-1].items() if k != "kind") == 1


@pytest.mark.slow
@pytest.mark.parametrize("trusting", ["eqsat.store.local.is_valid", "eqsat.store.shared.is_valid"])
def test_a_store_that_checks_nothing_is_found_out(trusting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusting, lambda key, value, checksum: isinstance(key, str) and isinstance(value, bytes))
    assert sum(c.wrong for c in store.of_entries(range(40), seed=0).values()) > 0
