"""What a session tells of its delegates."""

from __future__ import annotations

from eqsat.executorch.session import Delegate, Session
from eqsat.options.options import Options


def test_a_delegate_at_work_has_not_stepped_back() -> None:
    session = Session(Options(), [Delegate("forward/0")])
    assert session.stepped_back == 0 and not session.complete
    session.delegates[0].error = "RuntimeError: no"
    assert session.stepped_back == 1 and not session.complete and "eqsat stepped back" in str(session)
