"""The op table: one record (`op.Op`) per operator, with all that the other modules need to know of it.

Each group of operators has a file; docs/development/add-an-operator.md shows how to add an operator.
Names of operators are TOSA's in lower case, names of attributes are those of the TOSA schema in snake case.

>>> OPS["slice"].along.axes({"start": (0, 2), "size": (4, 1)}, (4, 5))
(1,)
>>> OPS["concat"].text((("axis", 3),))
'concat[3]'

The semantics are the pseudo-code of the TOSA specification 1.0; tests compare them with the TOSA reference model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.ops import indexing, leaves, moving, pointwise, windows  # noqa: F401 - add operators
from eqsat.tensor.ops.op import OPS, NotModelled, Op
from eqsat.tensor.types import Allowed, Array, Attrs, DType, GraphError, Type, Unpredictable

__all__ = ["OPS", "Op", "evaluate_defined", "evaluate_op", "exact_value", "infer"]


def infer(op: str, attrs: Attrs, operands: Sequence[Type]) -> Type:
    """Returns the type of the result of `op` on operands of these types. Raises GraphError if they do not fit."""
    spec = OPS[op]
    if spec.operands >= 0 and len(operands) != spec.operands:
        raise GraphError(f"{op} takes {spec.operands} tensor operands, got {len(operands)}")
    try:
        return spec.infer(dict(attrs), operands)
    except (IndexError, KeyError, TypeError, ValueError) as e:
        raise GraphError(f"{op}: {e}") from e


def evaluate_op(op: str, attrs: Attrs, operands: Sequence[Array], result: Type) -> Array:
    """Returns the value of one op in numpy, exactly as TOSA defines it, in the dtype of the result.

    Raises GraphError for opaque ops, dtypes that numpy lacks, arithmetic on floats, inexact rounding, and positions
    that TOSA does not allow.
    """
    value = exact_value(op, attrs, operands, result)
    return value.astype(DType.of(result.dtype).storage, order="C", copy=False)


def exact_value(op: str, attrs: Attrs, operands: Sequence[Array], result: Type) -> Array:
    """Returns the value of one op like `evaluate_op`, but it may be wider than its dtype."""
    spec, dtype = OPS[op], DType.of(result.dtype)
    if isinstance(spec.integer, NotModelled):
        raise GraphError(f"{op} {spec.integer.why}")
    floats = dtype.kind == "float" or any(x.dtype.kind == "f" for x in operands)
    if dtype.carried or floats and not spec.copies:
        raise GraphError(f"{op} cannot be evaluated in numpy; use the reference model")
    return np.asarray(spec.integer(dict(attrs), operands, result))


def evaluate_defined(op: str, attrs: Attrs, operands: Sequence[Array], types: Sequence[Type], result: Type) -> Array:
    """Returns the value of one op like `evaluate_op`, or raises Unpredictable if TOSA leaves it open."""
    spec, dtype = OPS[op], DType.of(result.dtype)
    for k, allowed in (spec.allowed(dict(attrs), types) if spec.allowed else {}).items():
        if why_not := allowed.why_not(operands[k]):
            raise Unpredictable(f"{op} reads {why_not}")
    value = exact_value(op, attrs, operands, result)
    if spec.running is not None:
        sums = spec.running(dict(attrs), operands, result)
        if why_not := Allowed(*DType.of("INT32").limits).why_not(sums):
            raise Unpredictable(f"{op} sums up to {why_not}")
    if dtype.is_integral and spec.overflows(dict(attrs)) and (why_not := Allowed(*dtype.limits).why_not(value)):
        raise Unpredictable(f"{op} gives {why_not}")
    return value.astype(dtype.storage, order="C", copy=False)
