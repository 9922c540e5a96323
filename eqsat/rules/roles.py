"""Rules that exchange data movement and slices with operators whose axes have different roles: GATHER, SCATTER, MATMUL,
convolutions and pooling operators.

The operator table gives every axis of operands and result a letter ("nhc,ncw->nhw" for MATMUL).
A change within an axis of one tensor applies to all other tensors that have this axis.
Therefore a movement that takes no element from one axis to another crosses in both directions, apart from views.
It crosses from the result to the operands ("push"), or from an operand to the result ("pull").
With a pull, the other operands get its inverse.
A slice crosses from the result to the operands.
If operands are constants, such as weights, the rule computes new constants.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import VALUE, Constant, Convolution, Slice, Value, every, kind_of, such
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import LHS, let, symbols
from eqsat.egraph.tree import Extern
from eqsat.rules.moves import moved
from eqsat.rules.slicing import constant_part, slice_call
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type

#: A movement that moves elements.
Moving = Annotated[Move, such("moving", Move, lambda m: not m.is_view)]
#: A movement that also keeps the size of the last axis.
#: Otherwise channels alone could be moved as tensors of any shape, and the rules would never end.
Reordering = Annotated[Move, such("reordering", Move, lambda m: not m.is_view and m.in_shape[-1:] == m.out_shape[-1:])]
#: A change within one axis: a movement, or start and size of a slice.
Part = TypeVar("Part")


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
    roles = OPS[call.op].roles
    if roles is None:
        return None
    tensors = [
        list(zip(*pair, strict=True)) for pair in zip(roles.replace("->", ",").split(","), (t.shape for t in types))
    ]
    of = {letter: part for (letter, n), part in zip(tensors[k], parts, strict=True) if part != nothing(n)}
    if any(letter.isupper() for letter in of) or any(n > 1 for t in tensors for letter, n in t if letter == "1"):
        return None
    return [[of[letter] if letter in of and n > 1 else nothing(n) for letter, n in t] for t in tensors]


def movements(call: Call, m: Move, k: int, types: Sequence[Type]) -> list[Move] | None:
    """Returns the movements of the operands and last of the result, if m moves the elements of tensor k.

    They are the movements of `parts_of_all`, for `m` without its views.
    Also returns None if m exchanges elements between axes.
    """
    parts = m.within(types[k].shape)
    found = None if parts is None else parts_of_all(call, k, parts, types, lambda n: Move.reshape((n,), (n,)))
    return None if found is None else [Move.product(of) for of in found]


@extern
def pushed(m: Reordering, call: Call, *types: Type) -> tuple[Move, ...] | None:
    """Returns movements of all operands, and last a view, such that m (call xs) = view (call (xs moved))."""
    found = movements(call, m, -1, types)
    return None if found is None else (*found[:-1], Move.reshape(m.in_shape, m.out_shape))


def _pulled(k: int) -> Extern[..., Any]:
    def pulled(m: Moving, call: Call, *types: Type) -> tuple[Move, ...] | None:
        """Returns movements of all operands and of the result for an operator whose operand k is moved by m; operand
        k gets only a view."""
        found = movements(call, m, k, types)
        if found is None:
            return None
        back = [of.inverse() for of in found[:-1]]
        return (*back[:k], Move.reshape(m.in_shape, m.out_shape), *back[k + 1 :], found[-1])

    pulled.__name__ = f"pulled_from_{k}"
    return extern(pulled)


#: The functions by the number of the operand that is moved.
PULLED = [_pulled(k) for k in range(3)]


@extern
def sliced(s: Slice, call: Call, result: Type, *operands: Type) -> tuple[Slice, ...] | None:
    """Returns slices of all operands such that s (call xs) = call (xs sliced)."""
    cut = list(zip(s.attr("start"), s.attr("size"), strict=True))
    found = parts_of_all(call, -1, cut, (*operands, result), lambda n: (0, n))
    return None if found is None else tuple(slice_call(*zip(*of, strict=True)) for of in found[:-1])


m, r, s = symbols("m", Moving), symbols("r", Reordering), symbols("s", Slice)
a, b, c, x = symbols("a b c x", Value)
weights, bias = symbols("weights bias", Constant)
rule = partial(rule, family="roles")


def across(f: Any, xs: Sequence[Any], name: str) -> Iterator[Rule]:
    """Yields the rules that exchange data movement and slices with operators whose axes have roles.

    Constants among the operands are moved and sliced at once, and no movement comes from them.
    name: what the names of the rules call the operators.
    """
    tensors = [k for k, x in enumerate(xs) if x.kind == VALUE]

    def moved_all(*n: Any) -> Any:
        operands = (of(x) if k in tensors else moved(of, x) for k, (of, x) in enumerate(zip(n, xs)))
        return n[-1](f(*operands))

    def sliced_all(*n: Any) -> Any:
        return f(*(of(x) if k in tensors else constant_part(of, x) for k, (of, x) in enumerate(zip(n, xs))))

    yield rule(f"push-{name}", r(f(*xs)), let(pushed(r, f, *xs, f(*xs)), moved_all))
    for k in tensors:
        given = [m(x) if i == k else x for i, x in enumerate(xs)]
        suffix = f"-{k}" if len(tensors) == len(xs) else ""
        yield rule(f"pull-{name}{suffix}", f(*given), let(PULLED[k](m, f, *given, LHS), moved_all))
    yield rule(f"slice-{name}", s(f(*xs)), let(sliced(s, f, f(*xs), *xs), sliced_all))


def _has_roles(call: Call) -> bool:
    return OPS[call.op].roles is not None and not kind_of(Convolution).accepts(call)


def with_roles(operands: int) -> Any:
    """Returns the kind of all operators that have roles and a given number of operands, without convolutions."""
    return Annotated[Call, such("roles", every(f"M{operands}", "roles"), _has_roles)]


RULES = [
    *(r for n in (1, 2, 3) for r in across(symbols("f", with_roles(n)), (a, b, c)[:n], f"roles-{n}")),
    *across(symbols("f", Convolution), (x, weights, bias), "convolution"),
]
