"""A few changes to one binary: what matters is noticed, and the summary counts it."""

from __future__ import annotations

import pytest

from benchmarks.changed_binaries import CHANGES, TARGETS, run, share, summary
from tests.sweeps import some

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("target", some(TARGETS, 1))
def test_changes_are_noticed(target: str) -> None:
    records = list(run([target], graphs=1, changes=4))
    assert len(records) == 4 * len(CHANGES)
    commands = [r for r in records if "constants" not in r["kind"]]
    assert share(commands) >= 0.9
    assert any(r["outcome"] == "wrong" for r in records)
    text = summary(records)
    assert f"| all | {len(records)} |" in text and "Without effect" in text
