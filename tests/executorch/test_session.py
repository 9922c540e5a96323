"""What a session tells of its delegates."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from eqsat.executorch.session import Delegate, LeftOperator, Session
from eqsat.options.decision import MemoryLimits
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.tosa import dumps
from tests.graphs import recomputed


def test_a_delegate_at_work_has_not_stepped_back() -> None:
    session = Session(Options(), [Delegate("forward/0")])
    assert session.stepped_back == 0 and not session.complete
    session.delegates[0].error = "RuntimeError: no"
    assert session.stepped_back == 1 and not session.complete and "eqsat fell back" in str(session)


def test_what_is_left_is_told_with_the_reason_and_the_remedy() -> None:
    left = [LeftOperator("aten.sort", 2, "not in a list", "write less"), LeftOperator("aten.mul", 1)]
    session = Session(Options(), left=left)
    told = "left to the CPU: aten.sort 2 (not in a list; write less), aten.mul 1"
    assert str(session).splitlines() == ["no delegates", told]
    assert repr(session) == "<Session: 0 delegate(s), unknown -> unknown cycles, 3 operator(s) left>"
    assert "<p>left to the CPU: aten.sort 2" in session._repr_html_()


@pytest.mark.slow
def test_a_line_tells_what_a_limit_of_memory_costs_and_what_does_not_fit(tmp_path: Path) -> None:
    options = Options(effort=1, cache=tmp_path, max_flash="any", binary_time_limit=0)
    given = dumps(recomputed())

    too_large = optimize_tosa(given, "ethos-u55-128", options=replace(options, max_sram=1, effort=0))
    line = str(Delegate("forward/0", too_large))
    assert line.count("; does not fit: ") == 1 and "limit" not in line
    result = optimize_tosa(given, "ethos-u55-128", options=options)
    slower = replace(result.figures["eqsat"], calibrated=result.explicit_calibrated + 1)
    paid = replace(
        result, figures={**result.figures, "eqsat": slower}, limits=MemoryLimits(result.explicit_footprint.sram - 1)
    )
    assert f"; {paid.price_of_limits}; bit-exact" in str(Delegate("forward/0", paid))
    assert paid.price_of_limits.startswith("SRAM ") and "(limit " in paid.price_of_limits
    assert replace(paid, figures=result.figures).price_of_limits == ""
