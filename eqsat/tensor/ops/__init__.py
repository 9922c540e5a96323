"""The op table: the one table of truth on operators.

Every operator states here, once, whatever is asked of it (`op.Op`): its operands, inference of shape and dtype,
semantics on integers as TOSA defines them and on real numbers, the axes that it acts along and how a movement passes
it, how TOSA, FX and people write it.
Readers, writers, rules, prices and checkers look it up. A group of operators is a file;
docs/development/add-an-operator.md adds one.

Operator names are TOSA's in lower case, attribute names are those of the TOSA schema in snake case.

>>> OPS["slice"].along.axes({"start": (0, 2), "size": (4, 1)}, (4, 5))
(1,)
>>> OPS["concat"].text((("axis", 3),))
'concat[3]'

Source of the semantics: TOSA specification 1.0, pseudo-code of each operator; checked against the reference model in
the tests.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eqsat.tensor.allowed import Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import indexing, leaves, moving, pointwise, reducing, rescale, windows
from eqsat.tensor.ops.op import OPS, NotModelled, Op
from eqsat.tensor.types import Array, Attrs, GraphError, Type, Unpredictable

__all__ = ["OPS", "Op", "evaluate_defined", "evaluate_op", "evaluate_real", "exact_value", "infer"]
#: The files of the table.
GROUPS = (leaves, moving, pointwise, rescale, reducing, windows, indexing)


def infer(op: str, attrs: Attrs, operands: Sequence[Type]) -> Type:
    """Shape and dtype of `op` on `operands`. Raises GraphError for operands that do not fit."""
    spec = OPS[op]
    if spec.operands >= 0 and len(operands) != spec.operands:
        raise GraphError(f"{op} takes {spec.operands} tensor operands, got {len(operands)}")
    try:
        return spec.infer(dict(attrs), operands)
    except (IndexError, KeyError, TypeError, ValueError) as e:
        raise GraphError(f"{op}: {e}") from e


def evaluate_op(op: str, attrs: Attrs, operands: Sequence[Array], result: Type) -> Array:
    """Value of one op in numpy, exactly as TOSA defines it. Raises GraphError for ops without semantics here: opaque
    ones, those on dtypes that numpy lacks, arithmetic on floats, and where TOSA leaves the result open."""
    value = exact_value(op, attrs, operands, result)
    return value.astype(DType.of(result.dtype).storage, order="C", copy=False)


def exact_value(op: str, attrs: Attrs, operands: Sequence[Array], result: Type) -> Array:
    """The same, which may be wider than its dtype. Raises GraphError."""
    spec, dtype = OPS[op], DType.of(result.dtype)
    if isinstance(spec.integer, NotModelled):
        spec.integer.refuse(op)
    floats = dtype.kind == "float" or any(x.dtype.kind == "f" for x in operands)
    if dtype.carried or floats and not spec.copies:
        raise GraphError(f"{op} cannot be evaluated in numpy; use the reference model")
    return np.asarray(spec.integer(dict(attrs), operands, result))


def evaluate_defined(op: str, attrs: Attrs, operands: Sequence[Array], types: Sequence[Type], result: Type) -> Array:
    """As `evaluate_op`. types: of the operands. Raises Unpredictable where TOSA leaves the result open, and
    GraphError."""
    spec, dtype = OPS[op], DType.of(result.dtype)
    for k, allowed in (spec.allowed(dict(attrs), types) if spec.allowed else {}).items():
        if why_not := allowed.why_not(operands[k]):
            raise Unpredictable(f"{op} reads {why_not}")
    value = exact_value(op, attrs, operands, result)
    if spec.overflows and dtype.is_integral and (why_not := Allowed(*dtype.limits).why_not(value)):
        raise Unpredictable(f"{op} gives {why_not}")
    return value.astype(dtype.storage, order="C", copy=False)


def evaluate_real(op: str, attrs: Attrs, operands: Sequence[Array], result: Type) -> Array:
    """Value of one op on real numbers, in float64, conditions as booleans. Raises GraphError for ops that mean nothing
    there."""
    spec = OPS[op]
    if isinstance(spec.real, NotModelled):
        spec.real.refuse(op)
    return spec.real(dict(attrs), operands, result)
