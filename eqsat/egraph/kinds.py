"""Attributes of e-nodes, and kinds: what the symbols of a rule stand for, and what functions take and return.

    f, g = symbols("f g", Slice)                  # two SLICEs
    def after(f: Slice, g: Slice) -> Slice: ...   # a function of two SLICEs that returns one

For a type checker `Slice` is a `Call`; here it is also a set of operators.
Annotations name kinds:

- a class stands for all its instances, `int` for numbers such as positions in a vector of tensors;
- `Annotated[C, such("name", C, test)]` for those instances of a class that pass a test;
- `Annotated[Call, op("name")]` for calls of some operators of the op table.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, NoReturn, Self, TypeVar, get_origin

import numpy as np
from numpy.typing import NDArray

from eqsat.tensor.graph import Node
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Const, DType, Type, attrs_of

# The attributes of e-nodes, which the e-graph interns: `Call` and `LeafValue`; that of a data movement is a `Move`.


@dataclass(frozen=True, slots=True)
class Call:
    """An operator with its attributes, as the e-graph interns it."""

    op: str
    attrs: Attrs

    def attr(self, name: str) -> Any:
        """Returns the value of an attribute. Raises KeyError if the operator does not have it."""
        return dict(self.attrs)[name]

    def with_attrs(self, **values: Any) -> Self:
        """Returns the operator with other values of some attributes."""
        return replace(self, attrs=attrs_of({**dict(self.attrs), **values}))


@dataclass(frozen=True, slots=True)
class LeafValue:
    """An input or a constant, given by its node of the tensor language."""

    node: Node

    @staticmethod
    def constant(data: NDArray[Any], dtype: str) -> LeafValue:
        """Returns the leaf of a constant array, which is stored in the numpy type of `dtype`."""
        value = Const(np.asarray(data, DType.of(dtype).storage), dtype)
        return LeafValue(Node("const", (), attrs_of({"value": value}), data.shape, dtype))

    @property
    def type(self) -> Type:
        """Shape and dtype."""
        return Type(self.node.shape, self.node.dtype)

    @property
    def is_const(self) -> bool:
        return self.node.op == "const"

    @property
    def data(self) -> NDArray[Any]:
        """The array of a constant. Raises KeyError for an input."""
        array: NDArray[Any] = self.node.attr("value").data
        return array


def constructor(op: str, operands: int) -> str:
    """Returns the name of the constructor (`encoding.py`) of an operator's e-nodes. operands: their number."""
    match OPS[op].kind:
        case "pointwise" | "axial":
            return f"P{operands}"
        case "mac" | "indexed":
            return f"M{operands}"
        case kind:
            return {"concat": "Cat", "leaf": "Leaf", "move": "Move", "opaque": "Opq"}[kind]


class RuleError(TypeError):
    """A rule that is not well-formed; the message names it, what is wrong, and the file and line of its definition."""


class Value:
    """The kind of a tensor, which is an e-class."""


class Values:
    """The kind of a vector of tensors, such as the operands of a CONCAT."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A set of values that may stand at one place of a rule.

    type: their class in Python.
    test: a condition that they fulfil besides, or None.
    constructor: the constructor of the e-nodes that have such an attribute, or "".
    ops: names of the operators, empty for any.
    variable: whether it is a TypeVar, which stands for the kind of the argument in its place.
    """

    name: str
    type: type
    test: Callable[[Any], bool] | None = None
    constructor: str = ""
    ops: frozenset[str] = frozenset()
    variable: bool = False

    def accepts(self, value: object) -> bool:
        """Tells whether a value is of this kind."""
        if not isinstance(value, self.type) or (isinstance(value, Call) and self.ops and value.op not in self.ops):
            return False
        return self.test is None or self.test(value)

    def __call__(self, *operands: object) -> NoReturn:
        """Raises RuleError, as a kind is no operator of a term."""
        raise RuleError(
            f"{self.name} is a kind, which takes no operands: make a variable operator of it, as in "
            '`add = symbols("add", Annotated[Call, op("add")])`, and write add(x, y)'
        )

    def includes(self, other: Kind) -> bool:
        """Tells whether all values of another kind are of this one, as far as definitions tell."""
        return self.constructor in ("", other.constructor) and other.implies(self)

    @property
    def sort(self) -> str:
        """egglog's sort of the values: T for classes, TV for vectors of them, i64 for positions and attributes."""
        return "T" if self.type is Value else "TV" if self.type is Values else "i64"

    def implies(self, other: Kind) -> bool:
        """Tells whether all values of this kind are of another one, as far as definitions tell.

        The constructor is not compared, since the place in the pattern determines it.
        """
        return (
            self.type is other.type
            and other.test in (None, self.test)
            and (not other.ops or bool(self.ops) and self.ops <= other.ops)
        )

    @property
    def is_narrow(self) -> bool:
        """Whether a value at its place in a pattern may be of another kind."""
        return bool(self.ops) or self.test is not None


VALUE, VALUES, INDEX = Kind("value", Value), Kind("values", Values), Kind("index", int)
MOVE = Kind("move", Move, constructor="Move")
LEAF = Kind("leaf", LeafValue, constructor="Leaf")
_OF_CLASS = {Value: VALUE, Values: VALUES, int: INDEX, Move: MOVE, LeafValue: LEAF}

#: {constructor: kinds of its operands}, for those that rules can match.
OPERANDS: dict[str, tuple[Kind, ...]] = {
    "Leaf": (),
    "Move": (VALUE,),
    "P1": (VALUE,),
    "P2": (VALUE, VALUE),
    "P3": (VALUE, VALUE, VALUE),
    "Cat": (VALUES,),
    "M1": (VALUE,),
    "M2": (VALUE, VALUE),
    "M3": (VALUE, VALUE, VALUE),
}


def kind_of(annotation: Any) -> Kind:
    """Returns the kind that an annotation names. Raises RuleError if it names none."""
    if get_origin(annotation) is Annotated:
        for extra in annotation.__metadata__:
            if isinstance(extra, Kind):
                return extra
        return kind_of(annotation.__origin__)
    if isinstance(annotation, Kind):
        return annotation
    if isinstance(annotation, TypeVar):
        return Kind(annotation.__name__, annotation.__bound__ or object, variable=True)
    if not isinstance(annotation, type):
        raise RuleError(f"{annotation!r} is no kind: give a class, or Annotated with op(...) or such(...)")
    return _OF_CLASS.get(annotation) or Kind(annotation.__name__, annotation)


def such(name: str, of: Any, test: Callable[[Any], bool]) -> Kind:
    """Returns the kind of those values of the kind `of` that pass a test."""
    base = kind_of(of)
    return Kind(name, base.type, test, base.constructor, base.ops)


def op(*names: str, name: str = "") -> Kind:
    """Returns the kind of calls of some operators of the op table.

    name: the name of the kind; by default it is made of theirs.
    Raises RuleError if the table lacks an operator, or if no constructor that rules match holds them all.
    """
    for unknown in (n for n in names if n not in OPS):
        near = difflib.get_close_matches(unknown, OPS)
        remedy = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(sorted(OPS))}"
        raise RuleError(f"the op table has no operator {unknown!r}; {remedy}")
    made = {n: constructor(n, OPS[n].operands) for n in names}
    holders = set(made.values())
    if len(holders) != 1 or not holders <= OPERANDS.keys():
        stored = ", ".join(f"{n} {c}" for n, c in made.items())
        raise RuleError(f"no constructor that rules match holds all of these operators: {stored}")
    (holder,) = holders
    held = {n for n in OPS if constructor(n, OPS[n].operands) == holder}
    ops = frozenset() if held <= set(names) else frozenset(names)
    return Kind(name or "|".join(names), Call, None, holder, ops)


def every(constructor: str, name: str) -> Kind:
    """Returns the kind of all calls that a constructor holds."""
    return Kind(name, Call, None, constructor)


def acts_along_axes(call: Call) -> bool:
    """Tells whether an operator of one operand is not pointwise."""
    return OPS[call.op].kind == "axial" or _per_channel(call)


def _per_channel(call: Call) -> bool:
    """Tells whether an operator is a RESCALE with one scale for each index of the last axis."""
    return call.op == "rescale" and bool(call.attr("per_channel"))


# ---- all operators of a constructor -------------------------------------------------------------

#: An operator of one operand, pointwise or along axes.
Single = Annotated[Call, every("P1", "single")]
Unary = Annotated[Call, such("pointwise", Single, lambda call: not acts_along_axes(call))]
Binary = Annotated[Call, every("P2", "pointwise")]
Ternary = Annotated[Call, every("P3", "pointwise")]
Axial = Annotated[Call, such("axial", Single, acts_along_axes)]
Concat = Annotated[Call, op("concat")]

#: An operator of any kind; a function from `Operator` to `Operator` returns one of its argument's kind.
Operator = TypeVar("Operator", bound=Call)

# ---- single operators ---------------------------------------------------------------------------

Clamp = Annotated[Call, op("clamp")]
AnyRescale = Annotated[Call, op("rescale")]
#: A RESCALE with one scale, and one with a scale for each index of the last axis.
Rescale = Annotated[Call, such("rescale", AnyRescale, lambda call: not _per_channel(call))]
ChannelRescale = Annotated[Call, such("channel_rescale", AnyRescale, _per_channel)]
#: A RESCALE with one scale, of signed values to signed values.
SignedRescale = Annotated[
    Call,
    such(
        "signed_rescale",
        AnyRescale,
        lambda call: not any(call.attr(name) for name in ("per_channel", "input_unsigned", "output_unsigned")),
    ),
]
Mul = Annotated[Call, op("mul")]
Slice = Annotated[Call, op("slice")]
Pad = Annotated[Call, op("pad")]
MaxPool = Annotated[Call, op("max_pool2d")]
Pooling = Annotated[Call, op("max_pool2d", "avg_pool2d", name="pool")]
Matmul = Annotated[Call, op("matmul")]
MatmulRows = Annotated[Call, op("matmul_rows")]
Conv2d = Annotated[Call, op("conv2d")]
DepthwiseConv2d = Annotated[Call, op("depthwise_conv2d")]
TransposeConv2d = Annotated[Call, op("transpose_conv2d")]
Convolution = Annotated[Call, op("conv2d", "depthwise_conv2d", "transpose_conv2d", name="convolution")]
#: A convolution that pads with its input's zero point.
PaddingConvolution = Annotated[Call, op("conv2d", "depthwise_conv2d")]

# ---- leaves -------------------------------------------------------------------------------------

#: A constant of a dtype that numpy has.
Constant = Annotated[
    LeafValue, such("constant", LeafValue, lambda leaf: leaf.is_const and not DType.of(leaf.node.dtype).carried)
]
