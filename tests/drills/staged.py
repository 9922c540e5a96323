"""The command line, which says on stderr where it is: `python -m tests.drills.staged STAGE COMMAND...`.

At a STAGE that may be over in a moment it waits, so that a signal finds it there and not behind.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

_WANTED = sys.argv[1]
#: The stderr of the process, which a command at work keeps others from.
_STDERR = os.fdopen(os.dup(2), "w")
_LONG = ("quantizing", "lowering")


def _announce(stage: str) -> None:
    if stage == _WANTED:
        print(f"STAGE {stage}", file=_STDERR, flush=True)
        deadline = time.monotonic() + (0 if stage in _LONG else 3)
        while time.monotonic() < deadline:
            time.sleep(0.01)


def _announced(module: Any, name: str, stage: str) -> None:
    original: Callable[..., Any] = getattr(module, name)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _announce(stage)
        return original(*args, **kwargs)

    setattr(module, name, wrapper)


def _prepare() -> None:
    import eqsat.cli.compile
    import eqsat.cli.optimize
    import extraction.exact
    from eqsat.search.clock import Clock

    original = Clock.stage

    @contextlib.contextmanager
    def stage(self: Any, name: str) -> Iterator[None]:
        with original(self, name):
            _announce(name)
            yield

    Clock.stage = stage
    _announced(extraction.exact, "reduce", "search")
    _announced(eqsat.cli.compile, "write_atomically", "write")
    _announced(eqsat.cli.optimize, "write_atomically", "write")
    if sys.argv[2] == "compile":  # ExecuTorch takes seconds
        _prepare_lowering()


def _prepare_lowering() -> None:
    from executorch.exir import EdgeProgramManager

    import eqsat.executorch.compiling
    import eqsat.executorch.loading

    _announced(eqsat.executorch.loading, "quantize", "quantizing")
    _announced(eqsat.executorch.compiling, "lower_with_session", "lowering")
    _announced(EdgeProgramManager, "to_executorch", "to_executorch")


if __name__ == "__main__":
    from eqsat.cli.app import app

    if _WANTED == "starting":
        print("STAGE starting", file=_STDERR, flush=True)
    else:
        _prepare()
    sys.argv = ["eqsat", *sys.argv[2:]]
    app()
