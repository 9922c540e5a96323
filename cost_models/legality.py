"""What no price may allow: the guards of ExecuTorch's Arm backend on single operators. What Vela refuses shows when it is measured."""

from __future__ import annotations

import math

from cost_models.protocol import Unit
from eqsat.target import Family
from eqsat.tensor.dtypes import DType

#: The highest rank of any tensor (TOSA specification 1.0, level 8K: MAX_RANK).
_HIGHEST_RANK = 6


def legal_transpose(shape: tuple[int, ...], dtype: str, family: Family) -> bool:
    """TOSA's limit on the rank, and the guards on TRANSPOSE (executorch backends/arm): the family's dtypes and its limit on the leading
    axes' product."""
    if DType.of(dtype).only_rescaled or len(shape) > _HIGHEST_RANK:
        return False
    t = family.transposes
    return (t.dtypes is None or dtype in t.dtypes) and (
        t.most_leading is None or math.prod(shape[:-2]) <= t.most_leading
    )


def legal(u: Unit, family: Family) -> bool:
    """Whether a unit may be used at all. RESCALE from INT32 to INT32: Vela 5.1 emits zeros on U55 (see eqsat/vela/guards.py)."""
    shape = u.operands[0].shape if u.operands else ()
    for op, attrs in u.steps:
        if op == "transpose":
            if not legal_transpose(shape, u.result.dtype, family):
                return False
            shape = tuple(shape[p] for p in dict(attrs)["perms"])
        elif op == "reshape":
            shape = dict(attrs)["shape"]
        elif op == "rescale" and u.operands[0].dtype == u.result.dtype == "INT32":
            return False
    return True
