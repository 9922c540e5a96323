"""ExecuTorch's own cases of TRANSPOSEs are models for `eqsat bench`."""

from __future__ import annotations

import pytest

from benchmarks import transpose_cases
from eqsat.bench.lowering import prepare
from eqsat.tosa import loads


@pytest.mark.slow
def test_a_case_of_the_wheel_is_lowered() -> None:
    """Stock keeps no TRANSPOSE of linear_rank2."""
    assert len(transpose_cases.cases()) == 36 and not hasattr(transpose_cases, "other")
    files, _ = prepare("benchmarks.transpose_cases:linear_rank2", "ethos-u85-256")
    explicit, stock = (loads(files[f"0.{kind}"]).op_counts().get("transpose", 0) for kind in ("explicit", "stock"))
    assert (explicit, stock) == (2, 0)
