"""What eqsat says by itself while a program is lowered, as the environment variable `EQSAT_LOG` has it.

`result`, the default, is a line per delegate on stderr; `info` and `debug` are those records of the logger "eqsat" too,
each with its seconds and place; `off` is nothing. Whoever takes care of the logger "eqsat"
(`logging.getLogger("eqsat").addHandler`), as the command line does, gets its records as ever.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from eqsat.ground.files import InputError

#: What `EQSAT_LOG` may be, and from which level on records are shown.
LEVELS = {"off": None, "result": None, "info": logging.INFO, "debug": logging.DEBUG}

results = logging.getLogger("eqsat.result")
_everything = logging.getLogger("eqsat")


class _ToStderr(logging.StreamHandler[Any]):
    """Writes to the stderr that there is when a record comes, which tests and notebooks exchange."""

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
    """Does what `EQSAT_LOG` says, once. Raises InputError where it says what nobody knows."""
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
