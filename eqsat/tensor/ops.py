"""The op table: the one table of truth on operators.

Every operator states here its tensor operands, the constant operands that are folded into attributes, how it infers
shape and dtype, its numpy semantics on integers and how it treats axes. Readers, writers, rules and checkers look it up.

Operator names are TOSA's in lower case, attribute names are those of the TOSA schema in snake case.

Source: TOSA specification 1.0, chapter "Operators".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eqsat.tensor import axes, inference, numerics
from eqsat.tensor.axes import Across, Along
from eqsat.tensor.dtypes import DType
from eqsat.tensor.inference import Infer
from eqsat.tensor.types import Attrs, GraphError, Type

Evaluate = Callable[[Mapping[str, Any], Sequence[np.ndarray], Type], np.ndarray]


@dataclass(frozen=True, slots=True)
class Op:
    """One line of the op table.

    operands: number of tensor operands (-1: any number).
    folded: constant operands behind them, as (attribute, dtype). The dtype is a TOSA name, "in<k>" for
        operand k's, or "out" for the result's; a rescale's multiplier is "scale".
    kind: how the op treats axes, which decides by which rules data movement crosses it:
        leaf, move, pointwise, axial (acts along some axes, pointwise in the others), concat, mac, opaque.
    along: which axes of its operand an axial op acts along. across: its attributes where a movement has placed these axes.
    """

    name: str
    operands: int
    kind: str
    infer: Infer
    evaluate: Evaluate | None
    folded: tuple[tuple[str, str], ...] = ()
    along: Along | None = None
    across: Across | None = None


OPS: dict[str, Op] = {}


def _op(
    name: str,
    operands: int,
    kind: str,
    infer: Infer,
    evaluate: Evaluate | None,
    *folded: tuple[str, str],
    along: Along | None = None,
    across: Across | None = None,
) -> None:
    OPS[name] = Op(name, operands, kind, infer, evaluate, folded, along, across)


_ZP = (("in_zp", "in0"), ("out_zp", "out"))

_op("input", 0, "leaf", inference.leaf, None)
_op("const", 0, "leaf", inference.leaf, None)
_op("item", 1, "opaque", inference.declared, None)  # one result of an opaque op with several
_op("opaque", -1, "opaque", inference.declared, None)

_op("fx", -1, "pointwise", inference.fx, None)  # FX ops above TOSA's level, by the attribute "call" (eqsat/fx/lift.py)
_op("reduce_fx", 1, "axial", inference.reduce_fx, None, along=axes.along_axis, across=axes.axis_across)

_op("transpose", 1, "move", inference.transpose, numerics.transpose)
_op("reshape", 1, "move", inference.reshape, numerics.reshape, ("shape", "SHAPE"))
_op("identity", 1, "pointwise", inference.same, numerics.identity)

for _name in ("abs", "bitwise_not", "clz", "logical_not"):
    _op(_name, 1, "pointwise", inference.same, numerics.UNARY[_name])
_op("negate", 1, "pointwise", inference.same, numerics.negate, *_ZP)
_op("clamp", 1, "pointwise", inference.same, numerics.clamp)
_op("table", 1, "pointwise", inference.table, numerics.table, ("table", "table"))
_op("cast", 1, "pointwise", inference.with_dtype, numerics.cast)
_op(
    "rescale",
    1,
    "pointwise",
    inference.rescale,
    numerics.rescale,
    ("multiplier", "scale"),
    ("shift", "INT8"),
    *_ZP,
    along=axes.along_channels,
    across=axes.channels_across,
)

for _name in (
    "add",
    "sub",
    "maximum",
    "minimum",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "logical_and",
    "logical_or",
    "logical_xor",
    "arithmetic_right_shift",
    "logical_left_shift",
    "logical_right_shift",
    "intdiv",
):
    _op(_name, 2, "pointwise", inference.pointwise(), numerics.BINARY[_name])
_op("mul", 2, "pointwise", inference.mul, numerics.mul, ("shift", "INT8"))
for _name in ("equal", "greater", "greater_equal"):
    _op(_name, 2, "pointwise", inference.pointwise("BOOL"), numerics.BINARY[_name])
_op("select", 3, "pointwise", inference.pointwise(), numerics.select)

_op("concat", -1, "concat", inference.concat, numerics.concat)
_op(
    "slice",
    1,
    "axial",
    inference.slice_,
    numerics.slice_,
    ("start", "SHAPE"),
    ("size", "SHAPE"),
    along=axes.along_slice,
    across=axes.slice_across,
)
_op(
    "pad",
    1,
    "axial",
    inference.pad,
    numerics.pad,
    ("pads", "SHAPE"),
    ("value", "in0"),
    along=axes.along_pad,
    across=axes.pad_across,
)
_op(
    "tile",
    1,
    "axial",
    inference.tile,
    numerics.tile,
    ("multiples", "SHAPE"),
    along=axes.along_tile,
    across=axes.tile_across,
)
_op("reverse", 1, "axial", inference.reverse, numerics.reverse, along=axes.along_axis, across=axes.axis_across)
for _name in ("reduce_sum", "reduce_max", "reduce_min", "reduce_any", "reduce_all", "reduce_product"):
    _op(_name, 1, "axial", inference.reduce, numerics.REDUCE.get(_name), along=axes.along_axis, across=axes.axis_across)
_op("argmax", 1, "opaque", inference.argmax, numerics.argmax)

_op("conv2d", 3, "mac", inference.conv(1, lambda k: k[0]), numerics.conv2d, ("in_zp", "in0"), ("w_zp", "in1"))
_op(
    "depthwise_conv2d",
    3,
    "mac",
    inference.conv(0, lambda k: k[2] * k[3]),
    numerics.depthwise_conv2d,
    ("in_zp", "in0"),
    ("w_zp", "in1"),
)
_op(
    "transpose_conv2d", 3, "mac", inference.transpose_conv, numerics.transpose_conv2d, ("in_zp", "in0"), ("w_zp", "in1")
)
_op("matmul", 2, "mac", inference.matmul, numerics.matmul, ("in_zp", "in0"), ("w_zp", "in1"))
_op("max_pool2d", 1, "mac", inference.pool, numerics.max_pool2d)
_op("avg_pool2d", 1, "mac", inference.pool, numerics.avg_pool2d, *_ZP)


def infer(op: str, attrs: Attrs, operands: Sequence[Type]) -> Type:
    """Shape and dtype of `op` on `operands`. Raises GraphError for operands that do not fit."""
    spec = OPS[op]
    if spec.operands >= 0 and len(operands) != spec.operands:
        raise GraphError(f"{op} takes {spec.operands} tensor operands, got {len(operands)}")
    try:
        return spec.infer(dict(attrs), operands)
    except (IndexError, KeyError, TypeError, ValueError) as e:
        raise GraphError(f"{op}: {e}") from e


#: Ops that give elements as they are, floats too.
_MOVING = frozenset({"transpose", "reshape", "identity", "select", "concat", "slice", "pad", "tile", "reverse"})


def evaluate_op(op: str, attrs: Attrs, operands: Sequence[np.ndarray], result: Type) -> np.ndarray:
    """Value of one op in numpy, exactly as TOSA defines it. Raises GraphError for ops without semantics here: opaque ones,
    those on dtypes that numpy lacks, arithmetic on floats and a RESCALE that may round inexactly, whose results TOSA leaves open."""
    fn, dtype = OPS[op].evaluate, DType.of(result.dtype)
    floats = dtype.kind == "float" or any(x.dtype.kind == "f" for x in operands)
    if (
        fn is None
        or dtype.carried
        or floats
        and op not in _MOVING
        or ("rounding_mode", numerics.INEXACT_ROUND) in attrs
    ):
        raise GraphError(f"{op} cannot be evaluated in numpy; use the reference model")
    out = fn(dict(attrs), operands, result)
    return np.asarray(out).astype(dtype.storage, order="C", copy=False)
