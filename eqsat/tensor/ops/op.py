"""What an operator is: one record that answers whatever is asked of it. A missing answer is an error when it is
defined."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import numpy as np

from eqsat.tensor.allowed import Allowed
from eqsat.tensor.dtypes import DType
from eqsat.tensor.types import Array, Attrs, GraphError, Shape, Type

Attributes = Mapping[str, Any]
#: (attributes, types of the operands) -> type of the result. Raises GraphError for operands that do not fit.
Infer = Callable[[Attributes, Sequence[Type]], Type]
#: (attributes, operands, type of the result) -> the value. On integers as TOSA defines it, wide intermediates in int64;
#: or on real numbers.
Evaluate = Callable[[Attributes, Sequence[Array], Type], Array]
#: (attributes, types of the operands) -> {operand: the values that TOSA allows there}, of those where it does not allow
#: all.
AllowedValues = Callable[[Attributes, Sequence[Type]], Mapping[int, Allowed]]

#: How an operator treats axes, which decides by which rules data movement crosses it.
#: leaf: has no operands. move: is a movement itself. pointwise: any movement. axial: acts along some axes and is
#: pointwise in the others.
#: concat: joins its operands along one axis. mac: products or poolings over windows, in a fixed layout. indexed: every
#: axis has its role, a movement may reorder what lies within one. opaque: nothing is known.
OpKind = Literal["leaf", "move", "pointwise", "axial", "concat", "mac", "indexed", "opaque"]


@dataclass(frozen=True, slots=True)
class NotModelled:
    """The answer that there is no such semantics, and why."""

    why: str

    def refuse(self, op: str) -> NoReturn:
        raise GraphError(f"{op} {self.why}")


@dataclass(frozen=True, slots=True)
class AxisPlacement:
    """Where a movement puts axes of its operand: `to` maps each to an axis of `out_shape`, in which it is outermost;
    `inner` gives how many elements lie inside of it there."""

    out_shape: Shape
    to: Mapping[int, int]
    inner: Mapping[int, int]

    @property
    def alone(self) -> bool:
        """True if every axis has its new axis to itself."""
        return all(n == 1 for n in self.inner.values())


@dataclass(frozen=True, slots=True)
class Along:
    """For ops that act along some axes of their operand: which, by attributes and the operand's shape; the attributes
    that differ where a movement has placed these axes elsewhere, or None where the op cannot be written there."""

    axes: Callable[[Attributes, Shape], tuple[int, ...]]
    across: Callable[[Attributes, AxisPlacement], Attributes | None]


#: How an operator is written for people: the attributes that tell it from others, or a text of its own.
Shown = tuple[str, ...] | Callable[[Attributes], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Op:
    """One line of the op table.

    operands: number of tensor operands (-1: any number).
    folded: constant operands after them, as (attribute, dtype). The dtype is a TOSA name, "in<k>" for
        operand k's, or "out" for the result's; a rescale's multiplier is "scale".
    declared: the result's dtype is the attribute "dtype", which TOSA writes at the tensor only.
    tosa: TOSA has it, under its name in upper case; the other attributes are those of TOSA's schema.
    copies: it gives elements of its operands as they are, floats too.
    allowed: for which operands TOSA requires what of the values; with others it leaves open what the op gives.
    overflows: it
        also does where the result of `integer` has no room in its dtype.
    macs: how many products it adds up, from the types of its operands and its result; None: it is none that multiplies
    and adds.
    along: for axial ops, and where a per-channel form of it is. roles: for indexed ones, the axes of each operand and
    of the result
        by letters, as "nKc,nw->nwc": along upper-case ones it acts.
    """

    name: str
    kind: OpKind
    operands: int
    infer: Infer
    integer: Evaluate | NotModelled
    real: Evaluate | NotModelled
    shown: Shown
    tosa: bool
    folded: tuple[tuple[str, str], ...] = ()
    declared: bool = False
    copies: bool = False
    allowed: AllowedValues | None = None
    overflows: bool = False
    macs: Callable[[Sequence[Type], Type], int] | None = None
    along: Along | None = None
    roles: str | None = None

    def __post_init__(self) -> None:
        if self.kind == "axial" and self.along is None:
            raise TypeError(f"the axial op {self.name} does not say which axes it acts along")
        if self.kind == "indexed" and self.roles is None:
            raise TypeError(f"the indexed op {self.name} does not say which roles its axes have")

    def text(self, attrs: Attrs) -> str:
        """The operator with the attributes that tell it from others."""
        values = dict(attrs)
        if callable(self.shown):
            return self.shown(values)
        parts = [numbers(values[k]) for k in self.shown if k in values]
        return f"{self.name}[{' : '.join(parts)}]" if parts else self.name


def numbers(values: Any) -> str:
    """A value or a tuple of them, with commas between."""
    return ",".join(map(str, values)) if isinstance(values, tuple | list) else str(values)


#: Every operator by its name.
OPS: dict[str, Op] = {}


def define(op: Op) -> Op:
    """Adds an operator to the table. Raises ValueError if its name is taken."""
    if op.name in OPS:
        raise ValueError(f"the op table has two operators {op.name}")
    OPS[op.name] = op
    return op


# ---- what many operators share --------------------------------------------------------------------


def wide(x: Array) -> Array:
    """In int64."""
    return x.astype(np.int64)


def same(attrs: Attributes, xs: Sequence[Type]) -> Type:
    """The type of the first operand."""
    return xs[0]


def with_dtype(attrs: Attributes, xs: Sequence[Type]) -> Type:
    return Type(xs[0].shape, attrs["dtype"])


def declared_type(attrs: Attributes, xs: Sequence[Type]) -> Type:
    return Type(attrs["shape"], attrs["dtype"])


def alike(xs: Sequence[Type]) -> None:
    """Raises GraphError for operands of different dtypes."""
    if len({x.dtype for x in xs}) != 1:
        raise GraphError(f"operands of different dtypes {[x.dtype for x in xs]}: cast or rescale first")


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """TOSA broadcasting: equal ranks, each dim equal or 1."""
    if len({len(s) for s in shapes}) > 1:
        raise GraphError(f"operands of different ranks {shapes}: TOSA broadcasts equal ranks only; reshape first")
    out = []
    for dims in zip(*shapes, strict=True):
        size = max(dims)
        if any(d not in (1, size) for d in dims):
            raise GraphError(f"shapes {shapes} do not broadcast")
        out.append(size)
    return tuple(out)


def axis_of(attrs: Attributes, rank: int) -> int:
    """The attribute "axis". Raises GraphError if it is none of the axes."""
    axis = attrs["axis"]
    if not 0 <= axis < rank:
        raise GraphError(f"axis {axis} is none of the {rank} axes")
    return int(axis)


def but_the_lowest(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Of INT32, whose lowest value has no negative."""
    return {0: Allowed(low=DType.of("INT32").limits[0] + 1)} if xs[0].dtype == "INT32" else {}


#: Acts along the axis of its attribute "axis", which must have a new axis to itself.
ALONG_AXIS = Along(
    lambda attrs, shape: (attrs["axis"],), lambda attrs, p: {"axis": p.to[attrs["axis"]]} if p.alone else None
)
#: The constant operands of zero points.
ZERO_POINTS = (("in_zp", "in0"), ("out_zp", "out"))
