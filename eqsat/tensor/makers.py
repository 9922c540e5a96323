"""Makers of attributes: TOSA's operators with everything that its schema requires.

Most attributes have defaults: `makers.rescale("INT8", 1 << 30, 38)` has TOSA's ten attributes.

>>> from eqsat.tensor import makers
>>> from eqsat.tensor.graph import TensorGraph
>>> g = TensorGraph()
>>> x = g.add_input("x", (1, 4, 4, 8), "INT8")
>>> y = g.add_with("clamp", [x], makers.clamp("INT8", 0, 90))
>>> g.nodes[g.add_with("rescale", [y], makers.rescale("INT32", shift=20, in_zp=-3))].dtype
'INT32'

Names and meanings are those of the schema; pads are (top, bottom, left, right), kernels and strides (y, x).
Numbers that the schema wraps in lists of one are plain numbers here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.ops.pointwise import SINGLE_ROUND
from eqsat.tensor.schema import DTYPE_CODE
from eqsat.tensor.types import Attrs, DType, attrs_of

#: PROPAGATE of tosa.NanPropagationMode; quantized values have no NaN.
PROPAGATE = 1
_UNIT = (1, 1)
_NONE = (0, 0, 0, 0)


def _several(values: int | Sequence[int]) -> tuple[int, ...]:
    return (int(values),) if isinstance(values, (int, np.integer)) else tuple(int(v) for v in values)


def rescale(
    dtype: str,
    multiplier: int | Sequence[int] | None = None,
    shift: int | Sequence[int] | None = None,
    *,
    in_zp: int = 0,
    out_zp: int = 0,
    scale32: bool = True,
    rounding_mode: int = SINGLE_ROUND,
    per_channel: bool | None = None,
    input_unsigned: bool = False,
    output_unsigned: bool = False,
) -> Attrs:
    """Returns the attributes of RESCALE to `dtype` by multiplier * 2**-shift, by default by one.

    scale32: multipliers have 32 bits; for INT48 they have 16.
    per_channel: None: whether the multiplier is a sequence.
    """
    one = 30 if scale32 else 14
    multiplier, shift = 1 << one if multiplier is None else multiplier, one if shift is None else shift
    if per_channel is None:
        per_channel = not isinstance(multiplier, (int, np.integer))
    return attrs_of(
        {
            "dtype": dtype,
            "multiplier": _several(multiplier),
            "shift": _several(shift),
            "in_zp": (in_zp,),
            "out_zp": (out_zp,),
            "scale32": scale32,
            "rounding_mode": rounding_mode,
            "per_channel": per_channel,
            "input_unsigned": input_unsigned,
            "output_unsigned": output_unsigned,
        }
    )


def by_one(dtype: str) -> Attrs:
    """Returns the attributes of RESCALE by one from sums of products of `dtype` to `dtype`."""
    return rescale(dtype, scale32=DType.of(DType.of(dtype).accumulator).bits <= 32)


def _products(dtype: str, in_zp: int, w_zp: int) -> dict[str, object]:
    accumulator = DTYPE_CODE[DType.of(dtype).accumulator]
    return {"in_zp": (in_zp,), "w_zp": (w_zp,), "acc_type": accumulator, "local_bound": False}


def conv(
    dtype: str,
    *,
    pad: Sequence[int] = _NONE,
    stride: Sequence[int] = _UNIT,
    dilation: Sequence[int] = _UNIT,
    in_zp: int = 0,
    w_zp: int = 0,
) -> Attrs:
    """Returns the attributes of CONV2D and DEPTHWISE_CONV2D on `dtype`."""
    window = {"pad": tuple(pad), "stride": tuple(stride), "dilation": tuple(dilation)}
    return attrs_of({**window, **_products(dtype, in_zp, w_zp)})


def transpose_conv(
    dtype: str, *, out_pad: Sequence[int] = _NONE, stride: Sequence[int] = _UNIT, in_zp: int = 0, w_zp: int = 0
) -> Attrs:
    """Returns the attributes of TRANSPOSE_CONV2D on `dtype`."""
    return attrs_of({"out_pad": tuple(out_pad), "stride": tuple(stride), **_products(dtype, in_zp, w_zp)})


def matmul(in_zp: int = 0, w_zp: int = 0) -> Attrs:
    """Returns the attributes of MATMUL."""
    return attrs_of({"in_zp": (in_zp,), "w_zp": (w_zp,)})


def max_pool(kernel: Sequence[int], *, stride: Sequence[int] = _UNIT, pad: Sequence[int] = _NONE) -> Attrs:
    """Returns the attributes of MAX_POOL2D."""
    return attrs_of({"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pad), "nan_mode": PROPAGATE})


def avg_pool(
    kernel: Sequence[int],
    *,
    stride: Sequence[int] = _UNIT,
    pad: Sequence[int] = _NONE,
    in_zp: int = 0,
    out_zp: int = 0,
) -> Attrs:
    """Returns the attributes of AVG_POOL2D on integers, whose sums are INT32."""
    window = {"kernel": tuple(kernel), "stride": tuple(stride), "pad": tuple(pad)}
    return attrs_of({**window, "in_zp": (in_zp,), "out_zp": (out_zp,), "acc_type": DTYPE_CODE["INT32"]})


def clamp(dtype: str, low: int | None = None, high: int | None = None) -> Attrs:
    """Returns the attributes of CLAMP to low..high, both included; None is the limit of `dtype`."""
    t = DType.of(dtype)
    lowest, highest = (t.to_bytes(limit if end is None else end) for end, limit in zip((low, high), t.limits))
    return attrs_of({"min_val": lowest, "max_val": highest, "nan_mode": PROPAGATE})


def table(entries: Sequence[int]) -> Attrs:
    """Returns the attributes of TABLE."""
    return attrs_of({"table": _several(entries)})


def pad(pads: Sequence[int], value: int = 0) -> Attrs:
    """Returns the attributes of PAD by elements before and after each axis."""
    return attrs_of({"pads": tuple(pads), "value": (value,)})


def mul(shift: int = 0) -> Attrs:
    """Returns the attributes of MUL."""
    return attrs_of({"shift": (shift,)})


def extremum(axis: int | None = None) -> Attrs:
    """Returns the attributes of MAXIMUM and MINIMUM, with an axis those of REDUCE_MAX, REDUCE_MIN and ARGMAX."""
    return attrs_of({"nan_mode": PROPAGATE} if axis is None else {"axis": axis, "nan_mode": PROPAGATE})
