"""What a session tells of its delegates."""

from __future__ import annotations

from eqsat.executorch.session import Delegate, LeftOperator, Session
from eqsat.options.options import Options


def test_a_delegate_at_work_has_not_stepped_back() -> None:
    session = Session(Options(), [Delegate("forward/0")])
    assert session.stepped_back == 0 and not session.complete
    session.delegates[0].error = "RuntimeError: no"
    assert session.stepped_back == 1 and not session.complete and "eqsat stepped back" in str(session)


def test_what_is_left_is_told_with_the_reason() -> None:
    session = Session(Options(), left=[LeftOperator("aten.sort", 2, "not in a list"), LeftOperator("aten.mul", 1)])
    assert str(session).splitlines() == ["no delegates", "left to the CPU: aten.sort 2 (not in a list), aten.mul 1"]
    assert repr(session) == "<Session: 0 delegate(s), unknown -> unknown corrected cycles, 3 operator(s) left>"
    assert "<p>left to the CPU: aten.sort 2" in session._repr_html_()
