"""What no price may allow: the guards of ExecuTorch's Arm backend on single operators. What Vela refuses shows when it is measured."""

from __future__ import annotations

import math

from cost_models.protocol import Unit

#: The highest rank of any tensor (TOSA specification 1.0, level 8K: MAX_RANK).
_HIGHEST_RANK = 6
#: U55 and U65 transpose only these dtypes (executorch backends/arm, operator support).
_U55_TRANSPOSABLE = ("INT8", "INT16", "BOOL")


def legal_transpose(shape: tuple[int, ...], dtype: str, family: str) -> bool:
    """TOSA's limit on the rank, and the guards on TRANSPOSE (executorch backends/arm): U55/U65 dtypes and the 65536 limit on the
    leading axes' product."""
    if dtype == "INT48" or len(shape) > _HIGHEST_RANK:
        return False
    if family == "u85":
        return True
    return dtype in _U55_TRANSPOSABLE and math.prod(shape[:-2]) <= 65536


def legal(u: Unit, family: str) -> bool:
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
