"""Where Vela compiles the cheapest choices wrongly, the answer is another graph, whose binary is right."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from eqsat.choice.compiled import Compiled
from eqsat.device.verification import Verdict
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps, loads
from eqsat.verification.binaries import Binaries
from tests.graphs import transposed_relus


def test_what_is_compiled_wrongly_is_not_the_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """All candidates without a TRANSPOSE, which are the cheapest, count as compiled wrongly."""
    begin = Binaries.begin

    def judged(self: Binaries, c: Compiled, *more: Any) -> Any:
        if c.name != "eqsat" or "transpose" in c.graph.op_counts():
            return begin(self, c, *more)
        future: Future[Verdict] = Future()
        future.set_result(Verdict(False, "planted"))
        return future

    monkeypatch.setattr(Binaries, "begin", judged)
    own = Options(effort=1, cache=tmp_path / "prices", max_sram="any", max_flash="any")
    found = optimize_tosa(dumps(transposed_relus()), "ethos-u55-128", options=own)
    assert any("Vela compiles it wrongly: planted" in w for w in found.warnings)
    assert found.verified and found.binary_verified is True and "transpose" in loads(found.tosa).op_counts()
