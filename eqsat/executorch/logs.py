"""The output of eqsat during a lowering, as the environment variable `EQSAT_LOG` sets it.

`result`, the default, is a line per delegate on stderr, `off` nothing; `info` and `debug` also show these records of
the logger "eqsat", whose own handlers, such as the command line's, get them anyway.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from eqsat.ground.files import InputError

#: Values of `EQSAT_LOG`, and the level from which on records are shown.
LEVELS = {"off": None, "result": None, "info": logging.INFO, "debug": logging.DEBUG}

results = logging.getLogger("eqsat.result")
_everything = logging.getLogger("eqsat")


class _ToStderr(logging.StreamHandler[Any]):
    """Writes to the present `sys.stderr` of each record, which tests and notebooks replace."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(form))

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        record.seconds = record.relativeCreated / 1e3
        super().emit(record)


_RESULTS = _ToStderr("eqsat: %(message)s")
_RECORDS = _ToStderr("[%(seconds).1f s] %(name)s: %(message)s")


def speak() -> None:
    """Sets up the output that `EQSAT_LOG` asks for, once. Raises InputError for an unknown value."""
    asked = os.environ.get("EQSAT_LOG", "result").lower()
    if asked not in LEVELS:
        raise InputError(f"EQSAT_LOG is {asked!r}: it may be {', '.join(LEVELS)}")
    results.propagate = False
    results.setLevel(logging.INFO)
    results.handlers = [] if asked == "off" else [_RESULTS]
    level = LEVELS[asked]
    if level is not None and _RECORDS not in _everything.handlers:
        _everything.addHandler(_RECORDS)
        _everything.setLevel(level)
    if _RECORDS in _everything.handlers and all(map(_is_on_stderr, logging.getLogger().handlers)):
        _everything.propagate = False


def _is_on_stderr(handler: logging.Handler) -> bool:
    """Whether a handler shows records where ours does; the import of ExecuTorch's Arm backend gives the root one."""
    return isinstance(handler, logging.StreamHandler) and handler.stream in (sys.stderr, sys.__stderr__)
