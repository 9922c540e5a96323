"""Where Vela compiles the cheapest choice wrongly, the search goes on without it."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from eqsat.choice.choice import Choices
from eqsat.choice.compiled import Compiled
from eqsat.device.verification import Verdict
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.search.result import Result
from eqsat.tosa import dumps, loads
from eqsat.verification.binaries import Binaries
from tests.graphs import transposed_relus

TARGET = "ethos-u55-128"


def optimized(place: Path) -> Result:
    own = Options(effort=1, cache=place / "prices", max_sram="any", max_flash="any")
    return optimize_tosa(dumps(transposed_relus()), TARGET, options=own)


def without_transposes(c: Compiled) -> bool:
    return c.name == "eqsat" and "transpose" not in c.graph.op_counts()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[set[int]]:
    """The choices that further searches were without.

    All candidates without a TRANSPOSE, which are the cheapest, count as compiled wrongly from their first CLAMP on.
    """
    begin, without, forbidden = Binaries.begin, Choices.without, list[set[int]]()

    def judged(self: Binaries, c: Compiled, *more: Any) -> Any:
        if not without_transposes(c):
            return begin(self, c, *more)
        culprit = next(n for n in c.graph.live() if c.graph.nodes[n].op == "clamp")
        future: Future[Verdict] = Future()
        future.set_result(Verdict(False, "planted"))
        self.culprits[c] = culprit
        return future

    def spied(self: Choices, nodes: set[int]) -> Choices:
        forbidden.append(nodes)
        return without(self, nodes)

    monkeypatch.setattr(Binaries, "begin", judged)
    monkeypatch.setattr(Choices, "without", spied)
    return forbidden


def test_the_search_goes_on_without_what_is_compiled_wrongly(searches: list[set[int]], tmp_path: Path) -> None:
    found = optimized(tmp_path / "with")
    assert searches and all(searches), "there was a further search"
    assert any("Vela compiles it wrongly: planted" in w for w in found.warnings)
    assert found.verified and found.binary_verified is True and "transpose" in loads(found.tosa).op_counts()
