"""Cases of a family of rules: graphs that a rule fires on, near misses that it spares, and the two tests over them.

CASES = Cases()

@CASES.fires_on("move-move")
def _(draw): ...                                     # -> a graph and its output

test_fires_and_is_exact, test_spares_near_misses = CASES.tests(fires_on=12, spares=4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.tensor.graph import TensorGraph
from tests.rules.checks import fires
from tests.sweeps import examples

RuleCase = Callable[[Callable], tuple[TensorGraph, int]]
Test = Callable[..., None]


class Cases:
    """Cases of a module; a case draws a graph and its output with Hypothesis' `draw`."""

    def __init__(self) -> None:
        self._positive: list[tuple[str, RuleCase]] = []
        self._negative: list[tuple[str, RuleCase]] = []

    def fires_on(self, rule: str) -> Callable[[RuleCase], RuleCase]:
        return lambda case: self._positive.append((rule, case)) or case

    def spares(self, rule: str) -> Callable[[RuleCase], RuleCase]:
        return lambda case: self._negative.append((rule, case)) or case

    def tests(self, *, fires_on: int, spares: int) -> tuple[Test, Test]:
        """That every rule fires on its cases and is exact there, and that it spares its near misses; with so many
        examples per case.
        To be called below the last case."""

        @pytest.mark.parametrize(("rule", "case"), _parameters(self._positive))
        @settings(max_examples=examples(fires_on), deadline=None)
        @given(st.data())
        def test_fires_and_is_exact(rule, case, data):
            assert fires(_graph(case, data), rule)

        @pytest.mark.parametrize(("rule", "case"), _parameters(self._negative))
        @settings(max_examples=examples(spares), deadline=None)
        @given(st.data())
        def test_spares_near_misses(rule, case, data):
            assert not fires(_graph(case, data), rule)

        return test_fires_and_is_exact, test_spares_near_misses


def _parameters(cases: list[tuple[str, RuleCase]]) -> list[Any]:
    return [pytest.param(r, c, id=f"{r}-{i}") for i, (r, c) in enumerate(cases)]


def _graph(case: RuleCase, data: st.DataObject) -> TensorGraph:
    g, out = case(data.draw)
    g.outputs = [out]
    return g
