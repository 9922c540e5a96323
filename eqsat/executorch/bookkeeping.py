"""A lowering without PyTorch's unread bookkeeping: an equal program in about a third of the time.

- Every pass writes and compiles the Python code of its graph (`unread_code.py`).
- Types of outputs are computed though they are known (`fake_outputs.py`).
- Arguments of nodes take a long way through functions for all kinds of them (`lookups.py`).
- The garbage collector walks repeatedly through all of PyTorch, which is no garbage.

`benchmarks/whole_job.py` measures the gain.
Another PyTorch than the one that these facts are of keeps its bookkeeping.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch

from eqsat.ground.garbage import collect_rarely

#: The version of PyTorch whose functions have equal ones here.
_TORCH = "2.13."

_active = False


@contextmanager
def less_bookkeeping() -> Iterator[None]:
    """Lowers with less bookkeeping; graphs, their metadata and the .pte do not differ.

    Only one is active per process: a nested one does nothing.
    """
    global _active
    if _active:
        yield
        return
    with ExitStack() as stack:
        stack.enter_context(_rare_collections())
        for where, name, value in _replacements() if torch.__version__.startswith(_TORCH) else ():
            stack.enter_context(patch.object(where, name, value, create=True))
        _active = True
        try:
            yield
        finally:
            _active = False


def _replacements() -> Iterator[tuple[Any, str, Any]]:
    """Yields objects, names of their attributes and values by which the same takes less time."""
    from eqsat.executorch import fake_outputs, lookups, unread_code

    for part in (unread_code, fake_outputs, lookups):
        yield from part.replacements()


@contextmanager
def _rare_collections() -> Iterator[None]:
    frozen = gc.get_freeze_count()
    if not frozen:
        gc.freeze()
    before = collect_rarely()
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()
