"""Lists the models of ExecuTorch's `backends/arm/test/misc/test_transpose_counts.py`, which come with its wheel.

    eqsat bench $(python -m benchmarks.transpose_cases) --targets ethos-u55-128,ethos-u85-256 \
      -c stock -c stock-without-layout-passes -c eqsat --out RUN
    eqsat report RUN

The command prints `--models` with all cases; each is an attribute of this module. A record has the TRANSPOSEs of its
graph in `op_counts`.

Takes a moment; the runs take some seconds for each case.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def cases() -> dict[str, Any]:
    """Returns {name: case} of the wheel. A case has `module`, `inputs` and `expected_transposes`."""
    from executorch.backends.arm.test.misc import test_transpose_counts

    return {**test_transpose_counts.cases, **test_transpose_counts.cases_int}


def __getattr__(name: str) -> Callable[[], tuple[Any, ...]]:
    """Returns what makes the model of a case, calibrated by its own inputs. Raises AttributeError."""
    if name.startswith("__") or name not in cases():
        raise AttributeError(name)
    case = cases()[name]
    return lambda: (case.module, case.inputs, [case.inputs])


if __name__ == "__main__":
    print(" ".join(f"--models benchmarks.transpose_cases:{name}" for name in cases()))
