"""The prover refuses graphs that are nearly equal, each with a known input on which they differ."""

from __future__ import annotations

import pytest

from eqsat.proof import PROVED, prove
from tests.verification.near_misses import PAIRS, Pair


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: p.name)
def test_a_near_miss_is_refused(pair: Pair) -> None:
    want, got = (g.evaluate(pair.witness)[0] for g in (pair.source, pair.found))
    assert (want != got).any(), "no witness"
    assert prove(pair.source, pair.found).verdict != PROVED
