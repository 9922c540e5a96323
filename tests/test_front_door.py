"""What a user finds in `eqsat` itself."""

from __future__ import annotations

import eqsat
from tests.command import python


def test_completion_offers_what_there_is_without_importing_it() -> None:
    code = "import eqsat, sys; print(*dir(eqsat)); print('torch' in sys.modules)"
    names, torch = python("-c", code, check=True).stdout.splitlines()
    assert set(eqsat.__all__) | {"__version__"} <= set(names.split())
    assert not {"TYPE_CHECKING", "annotations"} & set(names.split()) and torch == "False"
