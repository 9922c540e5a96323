"""Data movement across operators whose axes have roles.

The op table gives every axis of operands and result a letter ("nhc,ncw->nhw" for MATMUL).
A movement that takes no element from one axis to another moves elements within single axes.
A movement within an axis of one tensor is the same movement of all others that have the axis.
It crosses from the result to the operands ("push"), or from an operand to the result ("pull").
With a pull, the other operands get its inverse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from eqsat.egraph.attributes import Call
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Value, op, such
from eqsat.egraph.rule import Rule
from eqsat.egraph.terms import LHS, let, symbols
from eqsat.egraph.tree import Extern
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Type

#: A movement within axes that is no view.
Inner = Annotated[Move, such("inner", Move, lambda m: not m.is_view and m.within() is not None)]


def moved(call: Call, m: Move, k: int, types: Sequence[Type]) -> tuple[Move, ...] | None:
    """Returns the movements of all operands and then that of the result, where m moves operand k, or for -1 the result.

    They fulfil call (m_0 x_0) (m_1 x_1) ... = m_last (call x_0 x_1 ...).
    types: of the operands and the result.
    Returns None if `m` exchanges elements between axes or moves an axis that the operator acts along.
    """
    roles, parts = OPS[call.op].roles, m.within()
    if roles is None or parts is None:
        return None
    tensors = roles.replace("->", ",").split(",")
    of = dict(zip(tensors[k], parts, strict=True))
    if any(letter.isupper() and not part.is_identity for letter, part in of.items()):
        return None
    return tuple(
        Move.product([of.get(letter) or Move.reshape((n,), (n,)) for letter, n in zip(names, t.shape, strict=True)])
        for names, t in zip(tensors, types, strict=True)
    )


@extern
def pushed(m: Inner, call: Call, *types: Type) -> tuple[Move, ...] | None:
    """Returns the movements of all operands, and last m, such that m (call xs) = call (xs moved)."""
    return moved(call, m, -1, types)


def _pulled(k: int) -> Extern[..., Any]:
    def pulled(m: Inner, call: Call, *types: Type) -> tuple[Move, ...] | None:
        """Returns the movements of the other operands, and last that of the result, where m moves operand k."""
        found = moved(call, m, k, types)
        return None if found is None else (*(of.inverse() for of in found[:-1]), found[-1])

    pulled.__name__ = f"pulled_from_{k}"
    return extern(pulled)


def rules(make: Callable[..., Rule], name: str, *operands: str) -> list[Rule]:
    """Returns the rules of an operator of the op table.

    make: makes a rule of a name, a left and a right side.
    operands: what the names of the rules call each operand.
    """
    m, call = symbols("m", Inner), symbols(name, Annotated[Call, op(name)])
    xs = [symbols(operand, Value) for operand in operands]

    def push() -> Rule:
        result = call(*xs)

        def parts(*n: Any) -> Any:
            return call(*(of(x) for of, x in zip(n, xs, strict=False)))

        return make(f"push-{name}", m(result), let(pushed(m, call, *xs, result), parts))

    def pull(k: int) -> Rule:
        given = [m(x) if i == k else x for i, x in enumerate(xs)]

        def whole(*n: Any) -> Any:
            return n[-1](call(*(x if i == k else n[i](x) for i, x in enumerate(xs))))

        return make(f"pull-{name}-{operands[k]}", call(*given), let(_pulled(k)(m, call, *given, LHS), whole))

    return [push(), *map(pull, range(len(xs)))]
