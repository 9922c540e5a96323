"""Guards on single operators of ExecuTorch's Arm backend: no price may allow what they forbid.

Refusals of Vela show when a unit is measured.
What Vela cuts into thousands of operators takes it seconds, so that it is better not measured at all.
"""

from __future__ import annotations

import math

from cost_models.protocol import Unit
from eqsat.target import Family
from eqsat.tensor.types import DType
from eqsat.vela.patterns import LARGEST_STRIDE

#: The highest rank of any tensor (TOSA specification 1.0, level 8K: MAX_RANK).
_HIGHEST_RANK = 6
#: Most operators that Vela may make of one.
#: It takes .2 to .6 ms for each, and each costs over 80 cycles (Vela 5.2, U55 and U85).
_MOST_OPERATORS = 1_000


def legal_transpose(shape: tuple[int, ...], dtype: str, family: Family) -> bool:
    """Whether a TRANSPOSE of a tensor is within TOSA's limit on the rank and the guards of ExecuTorch (backends/arm).

    These are the family's dtypes and its limit on the product of the leading axes.
    """
    if DType.of(dtype).only_rescaled or len(shape) > _HIGHEST_RANK:
        return False
    transposes = family.transposes
    return (transposes.dtypes is None or dtype in transposes.dtypes) and (
        transposes.most_leading is None or math.prod(shape[:-2]) <= transposes.most_leading
    )


def legal(unit: Unit, family: Family) -> bool:
    """Whether a unit may be used at all."""
    shape = unit.operands[0].shape if unit.operands else ()
    for op, attrs in unit.steps:
        if op == "transpose":
            if not legal_transpose(shape, unit.result.dtype, family):
                return False
            shape = tuple(shape[p] for p in dict(attrs)["perms"])
        elif op == "reshape":
            shape = dict(attrs)["shape"]
    return True


def is_cut(unit: Unit) -> bool:
    """Whether Vela cuts an operator into more than `_MOST_OPERATORS`.

    It cuts a CONCAT or SLICE along all axes but the last three, and a convolution of large strides into its results.
    """
    shape, attrs = unit.result.shape, dict(unit.steps[0][1]) if unit.steps else {}
    if unit.op in ("concat", "slice"):
        return math.prod(shape[:-3]) > _MOST_OPERATORS
    strided = unit.op in ("conv2d", "depthwise_conv2d") and max(attrs["stride"]) > LARGEST_STRIDE
    return strided and math.prod(shape[1:3]) > _MOST_OPERATORS
