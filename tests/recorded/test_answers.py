"""Answers are what is recorded: a change that moves one says so in its own difference."""

from __future__ import annotations

import json

import pytest

from eqsat.vela.facts import version
from tests.recorded import RECORD, SAVED, TARGETS, measure

pytestmark = pytest.mark.slow

RECORDED = {(r["graph"], r["target"]): r for r in map(json.loads, RECORD.read_text().splitlines())}


@pytest.mark.parametrize("name", SAVED)
def test_answers_are_as_recorded(name: str) -> None:
    """If they are meant to be others, `python -m tests.recorded` renews the record."""
    for target in TARGETS:
        recorded = RECORDED[name, target]
        if recorded["vela"] != version():
            pytest.skip(f"recorded with Vela {recorded['vela']}")
        assert measure(name, target) == recorded


def test_every_record_is_proved_and_no_dearer_than_what_was_given() -> None:
    assert set(RECORDED) == {(name, target) for name in SAVED for target in TARGETS}
    assert all(r["proved"] and r["calibrated"] <= r["given_calibrated"] for r in RECORDED.values())
