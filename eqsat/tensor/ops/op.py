"""The record of an operator, and what many operators share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any, Literal

import numpy as np

from eqsat.tensor.types import Allowed, Array, Attrs, DType, GraphError, Shape, Type

Attributes = Mapping[str, Any]
#: Returns the type of the result for (attributes, types of the operands), or raises GraphError.
Infer = Callable[[Attributes, Sequence[Type]], Type]
#: Returns the value as TOSA defines it, for (attributes, operands, type of the result), wide numbers in INT64.
Evaluate = Callable[[Attributes, Sequence[Array], Type], Array]
#: Returns {operand: the values that TOSA allows there, unless it allows all} for (attributes, types of the operands).
AllowedValues = Callable[[Attributes, Sequence[Type]], Mapping[int, Allowed]]

#: How an operator treats axes, which decides by which rules data movement crosses it.
#: leaf: it has no operands.
#: move: it is a movement itself.
#: pointwise: any movement crosses it.
#: axial: it acts along some axes and is pointwise in the others.
#: concat: it joins its operands along one axis.
#: mac: it computes products or poolings over windows, in a fixed layout.
#: indexed: every axis has a role, and a movement may reorder what lies within one.
#: opaque: nothing is known of it.
OpKind = Literal["leaf", "move", "pointwise", "axial", "concat", "mac", "indexed", "opaque"]


@dataclass(frozen=True, slots=True)
class NotModelled:
    """The absence of a semantics, and why, in words that follow the operator's name."""

    why: str


@dataclass(frozen=True, slots=True)
class AxisPlacement:
    """Where a movement puts axes of its operand.

    to: maps each axis to an axis of `out_shape`, in which it is outermost.
    inner: how many elements lie inside of it there.
    """

    out_shape: Shape
    to: Mapping[int, int]
    inner: Mapping[int, int]

    @property
    def alone(self) -> bool:
        """Whether every axis has its new axis to itself."""
        return all(n == 1 for n in self.inner.values())


@dataclass(frozen=True, slots=True)
class Along:
    """How an operator acts along some axes of its operand.

    axes: returns these axes for (attributes, shape of the operand).
    across: returns the attributes that differ where a movement has placed these axes elsewhere, or None.
    following: attributes with an element for each index along the last axis, which is then the only one.
    They are all that differs between its elements, so a movement or slice of the axis is one of these attributes.
    """

    axes: Callable[[Attributes, Shape], tuple[int, ...]]
    across: Callable[[Attributes, AxisPlacement], Attributes | None]
    following: tuple[str, ...] = ()


def always(attrs: Attributes) -> bool:
    return True


#: How an operator is written for people: with the attributes that tell it from others, or as a text of its own.
Shown = tuple[str, ...] | Callable[[Attributes], str]


@dataclass(frozen=True, slots=True)
class Op:
    """One record of the op table.

    operands: number of tensor operands; -1 is any number.
    integer: semantics on integers.
    tosa: whether TOSA has it, under its name in upper case.
    The attributes that `folded` and `declared` do not name are those of TOSA's schema.
    folded: constant operands after the tensors, as (attribute, dtype).
    The dtype is a TOSA name, "in<k>" for that of operand k, or "out" for that of the result.
    For the multiplier of a RESCALE it is "scale", for the entries of a TABLE "table".
    declared: the dtype of the result is the attribute "dtype", which TOSA writes at the tensor only.
    copies: whether it gives elements of its operands as they are, floats too.
    allowed: the values that TOSA allows to operands; for others it leaves the result open.
    overflows: whether, with some attributes, it also leaves the result open if `integer` exceeds the dtype.
    Otherwise that wraps around.
    running: sums on the way to the result, which must not exceed INT32.
    macs: returns the number of products that are summed, for (types of the operands, type of the result).
    along: for axial operators, for those whose form per channel is axial, and for CONCAT.
    roles: for operators whose axes have roles, a letter for each axis of operands and result, as "nKc,nw->nwc".
    The operator acts along upper-case ones; 1 stands for an axis that must have size 1 for the letters to hold.
    Raises TypeError if an axial operator has no `along`, or an indexed one no `roles`.
    """

    kind: OpKind
    name: str
    operands: int
    infer: Infer
    integer: Evaluate | NotModelled
    shown: Shown = ()
    tosa: bool = True
    folded: tuple[tuple[str, str], ...] = ()
    declared: bool = False
    copies: bool = False
    allowed: AllowedValues | None = None
    overflows: Callable[[Attributes], bool] = lambda attrs: False
    running: Evaluate | None = None
    macs: Callable[[Sequence[Type], Type], int] | None = None
    along: Along | None = None
    roles: str | None = None

    def __post_init__(self) -> None:
        if self.kind in ("axial", "concat") and self.along is None:
            raise TypeError(f"the axial op {self.name} does not say which axes it acts along")
        if self.kind == "indexed" and self.roles is None:
            raise TypeError(f"the indexed op {self.name} does not say which roles its axes have")

    def letters(self, shapes: Sequence[Shape]) -> list[str] | None:
        """Returns a letter for each axis of operands and result, which have these shapes, None without roles."""
        if self.kind == "pointwise":
            return [ascii_lowercase[: len(shape)] for shape in shapes]
        letters = (self.roles or "").replace("->", ",").split(",")
        alone = (n for of, shape in zip(letters, shapes) for letter, n in zip(of, shape) if letter == "1")
        return None if self.roles is None or max(alone, default=1) > 1 else letters

    @property
    def kernel_axis(self) -> int:
        """The axis of a convolution's weights that is the height of the kernel; its width follows."""
        return (self.roles or "").split(",")[1].index("K")

    def text(self, attrs: Attrs) -> str:
        """Returns the operator with the attributes that tell it from others, for people."""
        values = dict(attrs)
        if callable(self.shown):
            return self.shown(values)
        parts = [numbers(values[k]) for k in self.shown if k in values]
        return f"{self.name}[{' : '.join(parts)}]" if parts else self.name


def numbers(values: Any) -> str:
    """Returns the text of a value, or of a tuple of them with commas between."""
    return ",".join(map(str, values)) if isinstance(values, tuple | list) else str(values)


#: Every operator, by its name.
OPS: dict[str, Op] = {}


def define(
    kind: OpKind,
    name: str,
    operands: int,
    infer: Infer,
    integer: Evaluate | NotModelled,
    **more: Any,
) -> Op:
    """Adds an operator to the table and returns its record; `more` has the other fields.

    Raises ValueError if the name is taken, and TypeError as `Op` does.
    """
    if name in OPS:
        raise ValueError(f"the op table has two operators {name}")
    OPS[name] = Op(kind, name, operands, infer, integer, **more)
    return OPS[name]


# ---- what many operators share --------------------------------------------------------------------


def wide(x: Array) -> Array:
    """Returns an array in INT64."""
    return x.astype(np.int64)


def same(attrs: Attributes, xs: Sequence[Type]) -> Type:
    """Returns the type of the first operand."""
    return xs[0]


def with_dtype(attrs: Attributes, xs: Sequence[Type]) -> Type:
    """Returns the shape of the first operand with the dtype of the attribute "dtype"."""
    return Type(xs[0].shape, attrs["dtype"])


def get_declared_type(attrs: Attributes, xs: Sequence[Type]) -> Type:
    """Returns the type of the attributes "shape" and "dtype"."""
    return Type(attrs["shape"], attrs["dtype"])


def alike(xs: Sequence[Type]) -> None:
    """Raises GraphError for operands of different dtypes."""
    if len({x.dtype for x in xs}) != 1:
        raise GraphError(f"operands of different dtypes {[x.dtype for x in xs]}: cast or rescale first")


def broadcast(shapes: Sequence[Shape]) -> Shape:
    """Returns the shape to which shapes broadcast (TOSA 1.0: equal ranks), or raises GraphError."""
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
    """Returns the attribute "axis", or raises GraphError if a tensor of `rank` axes has none of this number."""
    axis = attrs["axis"]
    if not 0 <= axis < rank:
        raise GraphError(f"axis {axis} is out of range for a tensor of {rank} axes")
    return int(axis)


def infer_reduced(attrs: Attributes, xs: Sequence[Type]) -> Type:
    """Returns the type of the first operand with size 1 along the attribute "axis"."""
    shape = list(xs[0].shape)
    shape[axis_of(attrs, len(shape))] = 1
    return Type(tuple(shape), xs[0].dtype)


def but_the_lowest(attrs: Attributes, xs: Sequence[Type]) -> Mapping[int, Allowed]:
    """Allows all INT32 values of the first operand but the lowest, which has no negative."""
    return {0: Allowed(low=DType.of("INT32").limits[0] + 1)} if xs[0].dtype == "INT32" else {}


#: For operators that act along no axis.
NOWHERE = Along(lambda attrs, shape: (), lambda attrs, p: {})
#: For operators that act along the attribute "axis", which must have a new axis to itself.
ALONG_AXIS = Along(
    lambda attrs, shape: (attrs["axis"],), lambda attrs, p: {"axis": p.to[attrs["axis"]]} if p.alone else None
)
#: Zero points of the operand and the result, as constant operands (`Op.folded`).
ZERO_POINTS = (("in_zp", "in0"), ("out_zp", "out"))
