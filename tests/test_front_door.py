"""What a user finds in `eqsat` itself."""

from __future__ import annotations

import subprocess
import sys

import eqsat


def test_completion_offers_what_there_is_without_importing_it() -> None:
    code = "import eqsat, sys; print(*dir(eqsat)); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names, torch = done.stdout.splitlines()
    assert set(eqsat.__all__) | {"__version__"} <= set(names.split())
    assert not {"TYPE_CHECKING", "annotations"} & set(names.split()) and torch == "False"
