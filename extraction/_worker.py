"""A solver in a process of its own: `python -m extraction._worker`.

Reads one job (a line of JSON) from stdin and writes messages (JSON lines) to stdout:

    {"choice": {"class": node}}   an incumbent
    {"bound": x}                  a proved lower bound
    {"end": "optimal" | "infeasible" | "limit" | "unavailable" | "error", "message": ...}

When stdin closes, the parent is gone and so is this process.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .io import from_json
from .race import solver_of

Message = dict[str, Any]


def main() -> None:
    """Run the one job."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    # Solvers print to stdout from C; messages go to a private copy of it, prints to stderr.
    messages = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    lock = threading.Lock()

    def send(message: Message) -> None:
        with lock:
            messages.write(json.dumps(message) + "\n")
            messages.flush()

    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    warm = job["warm_start"]
    try:
        ending = solver_of(job["solver"]).solve(
            from_json(job["graph"]),
            Messages(send),
            deadline=time.perf_counter() + job["time_limit"],
            seed=job["seed"],
            warm_start=None if warm is None else {int(c): n for c, n in warm.items()},
        )
        send({"end": ending})
    except ImportError as error:
        send({"end": "unavailable", "message": str(error)})
    except Exception as error:  # noqa: BLE001  the parent learns of whatever went wrong, and goes on without us
        send({"end": "error", "message": f"{type(error).__name__}: {error}"})
    os._exit(0)  # some solvers hang or crash in their destructors


class Messages:
    """A Report that sends what it is given."""

    def __init__(self, send: Callable[[Message], None]):
        self._send = send

    def choice(self, choice: dict[int, int]) -> None:
        self._send({"choice": choice})

    def bound(self, value: float) -> None:
        self._send({"bound": value})


def _leave_with_parent() -> None:
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
