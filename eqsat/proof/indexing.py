"""Operators that move elements, and operators that are function symbols of many elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eqsat.proof.field import LANES
from eqsat.proof.functions import IDENTITY
from eqsat.proof.values import Terms, Value, join
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Attrs, Type


def move(t: Terms, op: str, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of a data movement, which the op table applies to the elements' numbers."""
    values = dict(attrs)
    if op in ("reshape", "identity"):
        return replace(xs[0], shape=out.shape)
    if len(xs) > 1 and len({(v.members, v.extremum) for v in xs}) > 1:
        xs = [t.plain(v) for v in xs]
    x = xs[0] if len(xs) == 1 else join(xs)
    if op == "pad":
        x, values["value"] = t.with_constant(x, values["value"][0]), (xs[0].elements,)
    starts = np.cumsum([0, *(v.elements for v in xs)])
    numbers = [start + np.arange(v.elements).reshape(v.shape) for start, v in zip(starts, xs)]
    at = np.asarray(OPS[op].integer(values, numbers, out))  # type: ignore[operator]
    return x.take(at, out.shape, out.dtype)


def gather(t: Terms, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of GATHER.

    With constant positions it is a movement, else a symbol of the position and of all rows that it may select.
    """
    values, indices = xs
    n, k, c = values.shape
    positions = t.concrete(indices)
    if positions is not None and ((positions >= 0) & (positions < k)).all():
        return values.take(np.arange(values.elements).reshape(n, k, c)[np.arange(n)[:, None], positions], out.shape)
    t.require_allowed("gather", dict(attrs), xs)
    values = t.plain(values)
    functions = values.functions.reshape(n, k, c)
    same = ((functions == functions[:, :1]) & t.may_move(values).reshape(n, k, c)).all(1, keepdims=True)
    same = np.broadcast_to(same, (n, k, c)).reshape(-1)
    bare = t.strip(values, same)  # f(gather(x)) = gather(f(x)) if all rows have the same f
    columns = t.field.digest(t.symbol("column"), _columns(t, bare))  # [LANES, n * c]
    at = t.lanes(indices).reshape(LANES, n, -1, 1)
    shape = (LANES, *out.shape)
    whole = np.broadcast_to(columns.reshape(LANES, n, 1, c), shape).reshape(LANES, -1)
    taken = t.apply(t.symbol("gather"), out.shape, out.dtype, np.broadcast_to(at, shape).reshape(LANES, -1), whole)
    first, same = (np.broadcast_to(x.reshape(n, k, c)[:, :1], out.shape).reshape(-1) for x in (functions, same))
    return replace(taken, functions=np.where(same, first, taken.functions))


def _columns(t: Terms, v: Value) -> Any:
    """Returns lanes of [n, k, c] with k in front: [LANES, k, n * c]."""
    n, k, c = v.shape
    return t.lanes(v).reshape(LANES, n, k, c).transpose(0, 2, 1, 3).reshape(LANES, k, n * c)


def first_largest(t: Terms, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    """Returns the term of ARGMAX: a symbol of the elements along the axis, in order.

    If all of them are one increasing line of their roots, it is a symbol of the roots.
    """
    (x,), axis = xs, dict(attrs)["axis"]
    if x.members == 1:
        functions = np.moveaxis(x.functions.reshape(x.shape), axis, 0)
        g, a = (t.functions.column(name)[functions] for name in ("g", "a"))
        same = (functions == functions[:1]).all(0) & (g[0] == IDENTITY) & (a[0] > 0)
        x = t.strip(x, np.moveaxis(np.broadcast_to(same, functions.shape), 0, axis).reshape(-1))
    lanes = np.moveaxis(t.lanes(x).reshape(LANES, *x.shape), 1 + axis, 1).reshape(LANES, x.shape[axis], -1)
    ordered = t.field.digest(t.symbol("argmax"), lanes)
    return t.root(ordered, out.shape, out.dtype, (0, x.shape[axis] - 1))


def opaque(t: Terms, op: str, attrs: Attrs, xs: Sequence[Value], out: Type) -> Value:
    """Returns a function symbol of all operands and of the element's position.

    What an operator that is unknown or may overflow requires is noted of all operands together.
    """
    t.require_allowed(op, dict(attrs), xs)
    state = t.field.constants([len(xs)])
    for v in xs:
        symbol = t.symbol("operand", v.shape, v.dtype)
        state = t.field.apply(symbol, state, t.field.digest(symbol, t.lanes(v)[:, :, None]))
    if OPS[op].kind == "opaque" or OPS[op].overflows(dict(attrs)):
        t.note(state, op, attrs)
    places = t.field.constants(np.arange(out.elements))
    return t.apply(t.symbol(op, attrs, out), out.shape, out.dtype, np.broadcast_to(state, places.shape), places)
