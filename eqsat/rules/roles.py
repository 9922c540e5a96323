"""Rules that exchange data movement and slices with pointwise operators of several operands, and with operators whose
axes have different roles: GATHER, SCATTER, MATMUL, convolutions and pooling operators.

The operator table gives every axis of operands and result a letter ("nhc,ncw->nhw" for MATMUL).
A change within an axis of one tensor applies to all other tensors that have this axis.
Therefore a movement that takes no element from one axis to another crosses in both directions, apart from views.
The axes of a pointwise operator all correspond, so any movement crosses it.
A movement crosses from the result to the operands ("push"), or from an operand to the result ("pull"), as in
`across.py`; a slice crosses from the result to the operands.
If operands are constants, such as weights, the rule computes new constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

from eqsat.egraph.kinds import VALUE, Binary, Call, Constant, Convolution, Slice, Ternary, Value, every, kind_of, such
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, extern, let, symbols
from eqsat.rules.moves import move_constant
from eqsat.rules.slicing import constant_part, slice_call
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type

#: A change within one axis: a movement, or start and size of a slice.
Part = TypeVar("Part")


def _is_pointwise(call: Call) -> bool:
    return OPS[call.op].kind == "pointwise"


def parts_of_all(
    call: Call, k: int, parts: Sequence[Part], types: Sequence[Type], nothing: Callable[[int], Part]
) -> list[list[Part]] | None:
    """Returns the changes within the axes of the operands and last of the result, if tensor k has these changes.

    They fulfil call (done_0 x_0) (done_1 x_1) ... = done_last (call x_0 x_1 ...).
    k: the number of an operand, or -1 for the result.
    types: the types of the operands and the result.
    nothing: returns the part that leaves so many elements unchanged.
    An axis of size 1 broadcasts, so nothing changes within it.
    Returns None if something changes within an axis along which the operator acts.
    """
    roles = OPS[call.op].letters([t.shape for t in types])
    if roles is None:
        return None
    tensors = [list(zip(letters, t.shape, strict=True)) for letters, t in zip(roles, types, strict=True)]
    of = {letter: part for (letter, n), part in zip(tensors[k], parts, strict=True) if part != nothing(n)}
    if any(letter.isupper() for letter in of):
        return None
    return [[of[letter] if letter in of and n > 1 else nothing(n) for letter, n in t] for t in tensors]


def movements(call: Call, m: Move, k: int, types: Sequence[Type]) -> list[Move] | None:
    """Returns the movements of the operands and last of the result, if m moves the elements of tensor k.

    Those of a pointwise operator are m itself, restricted to a tensor that broadcasts; tensor k must not.
    Otherwise they are the movements of `parts_of_all`, for `m` without its views.
    Also returns None if m then moves nothing, or exchanges elements between axes.
    """
    if _is_pointwise(call):
        found = [m.restrict(t.shape) for t in types] if m.in_shape == types[-1].shape else [None]
        return None if None in found else [of for of in found if of is not None]
    parts = None if m.is_view else m.within(types[k].shape)
    inside = None if parts is None else parts_of_all(call, k, parts, types, lambda n: Move.reshape((n,), (n,)))
    return None if inside is None else [Move.product(of) for of in inside]


@extern
def push(m: Move, call: Call, *types: Type) -> tuple[Move, ...] | None:
    """Returns movements of all operands, and last a view, such that m (call xs) = view (call (xs moved)).

    There is no view for a pointwise operator.
    For others, m must keep the size of the last axis.
    Otherwise channels alone could be moved as tensors of any shape, and the rules would never end.
    """
    found = movements(call, m, -1, types) if _is_pointwise(call) or m.in_shape[-1:] == m.out_shape[-1:] else None
    return None if found is None else (*found[:-1], Move.reshape(m.in_shape, m.out_shape))


@extern
def pull(k: int, m: Move, call: Call, *types: Type) -> tuple[Move, ...] | None:
    """Returns movements of all operands and of the result for an operator whose operand k is moved by m.

    Operand k gets only a view.
    """
    found = movements(call, m.inverse(), k, types)
    if found is None:
        return None
    return (*found[:k], Move.reshape(m.in_shape, m.out_shape), *found[k + 1 : -1], found[-1].inverse())


@extern
def slice_operands(s: Slice, call: Call, result: Type, *operands: Type) -> tuple[Slice, ...] | None:
    """Returns slices of all operands such that s (call xs) = call (xs sliced)."""
    cut = list(zip(s.attr("start"), s.attr("size"), strict=True))
    found = parts_of_all(call, -1, cut, (*operands, result), lambda n: (0, n))
    return None if found is None else tuple(slice_call((a for a, _ in of), (n for _, n in of)) for of in found[:-1])


m, s = symbols("m", Move), symbols("s", Slice)
x, y, z = symbols("x y z", Value)
weights, bias = symbols("weights bias", Constant)
rule = partial(rule, family="roles")


def across(f: Any, xs: Sequence[Any], name: str, places: Sequence[str], viewed: bool = True) -> Iterator[Rule]:
    """Yields the rules that exchange data movement and slices with operators of several operands.

    Constants among the operands are moved and sliced at once, and no movement comes from them.
    name, places: what the names of the rules call the operators, and the operands that are moved.
    viewed: whether movements cross without their views.
    """
    tensors = [k for k, x in enumerate(xs) if x.kind == VALUE]

    def view(n: Any, x: Any) -> Any:
        return n(x) if viewed else x

    def on_all(of_constant: Any, n: Sequence[Any], from_: int = -1) -> Any:
        return f(
            *(
                view(of, x) if k == from_ else of(x) if k in tensors else of_constant(of, x)
                for k, (of, x) in enumerate(zip(n, xs))
            )
        )

    def pulled_all(k: int) -> Callable[..., Any]:
        return lambda *n: n[-1](on_all(move_constant, n, k))

    yield rule(
        f"push-{name}", m(f(*xs)), let(push(m, f, *xs, f(*xs)), lambda *n: view(n[-1], on_all(move_constant, n)))
    )
    for k, place in zip(tensors, places, strict=True):
        given = [m(x) if i == k else x for i, x in enumerate(xs)]
        yield rule(f"pull-{name}{place}", f(*given), let(pull(k, m, f, *given, LHS), pulled_all(k)))
    yield rule(f"slice-{name}", s(f(*xs)), let(slice_operands(s, f, f(*xs), *xs), lambda *n: on_all(constant_part, n)))


def _has_roles(call: Call) -> bool:
    return OPS[call.op].roles is not None and not kind_of(Convolution).accepts(call)


def with_roles(operands: int) -> Any:
    """Returns the kind of all operators that have roles and a given number of operands, without convolutions."""
    return Annotated[Call, such("roles", every(f"M{operands}", "roles"), _has_roles)]


_NUMBERS = ("-0", "-1", "-2")
RULES = [
    *across(symbols("g", Binary), (x, y), "binary", ("-left", "-right"), viewed=False),
    *across(symbols("h", Ternary), (x, y, z), "select", _NUMBERS, viewed=False),
    *(r for n in (1, 2, 3) for r in across(symbols("f", with_roles(n)), (x, y, z)[:n], f"roles-{n}", _NUMBERS[:n])),
    *across(symbols("f", Convolution), (x, weights, bias), "convolution", ("",)),
]
