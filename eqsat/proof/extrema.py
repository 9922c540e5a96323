"""Maxima and minima as sets of members: order, repetition and nesting do not matter.

A monotone function of a maximum is applied to the members: max(f(x), f(y)) = f(max(x, y)).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from eqsat.proof.steps import LARGEST, Undecidable
from eqsat.proof.values import Terms, Value, unique
from eqsat.tensor.types import Type

#: Members of all elements together up to which sets are kept; larger sets become roots.
_LARGEST_SETS = 1 << 22


def extremum(t: Terms, kind: str, xs: Sequence[Value], shape: tuple[int, ...], dtype: str) -> Value:
    """Returns the elementwise maximum (kind "max") or minimum ("min") of values of one shape."""
    xs = [t.collapse(v) if v.members > 1 and v.extremum != kind else v for v in xs]
    members = sum(v.members for v in xs)
    roots = np.concatenate([v.roots for v in xs], 1)
    functions = np.concatenate([v.functions for v in xs])
    out = Value(shape, dtype, roots, functions, max(v.degree for v in xs), members, kind if members > 1 else "")
    if members == 1:
        return out
    out = _without_constants(t, out)
    return t.collapse(out) if len(out.functions) > _LARGEST_SETS else out


def _without_constants(t: Terms, v: Value) -> Value:
    """Replaces constant members by a bound of the other members."""
    low, high = (t.functions.column(name)[v.functions].reshape(v.members, -1) for name in ("low", "high"))
    fixed = low == high
    if not fixed.any():
        return v
    largest = v.extremum == "max"
    none = -LARGEST if largest else LARGEST
    bound = np.where(fixed, low, none)
    bound = bound.max(0) if largest else bound.min(0)
    limits, variant = unique(bound)
    clip = ("clip", limits, LARGEST) if largest else ("clip", -LARGEST, limits)
    flat = t.step(v.flat(), [clip], v.dtype, np.tile(variant, v.members))
    # constants are replaced by another member, if there is one
    first = np.where(fixed, (~fixed).argmax(0)[None], np.arange(v.members)[:, None])
    at = (first * v.elements + np.arange(v.elements)).reshape(-1)
    return replace(v, roots=flat.roots[:, at], functions=flat.functions[at])


def pool_maximum(t: Terms, attrs: Mapping[str, Any], x: Value, out: Type, kind: str = "max") -> Value:
    """Returns the term of MAX_POOL2D: the members are the input elements under the window.

    kind: "max" or "min". Raises Undecidable for a window that lies outside of the input.
    """
    (ky, kx), (sy, sx), (top, _, left, _) = attrs["kernel"], attrs["stride"], attrs["pad"]
    x = _for_members_of(t, kind, x, ky * kx, out)
    _, height, width, _ = x.shape
    rows = np.arange(out.shape[1]) * sy - top + np.arange(ky)[:, None]
    columns = np.arange(out.shape[2]) * sx - left + np.arange(kx)[:, None]
    for y, m in ((rows, height), (columns, width)):
        if (y.max(0) < 0).any() or (y.min(0) >= m).any():
            raise Undecidable("a window that lies outside")
    rows, columns = rows.clip(0, height - 1), columns.clip(0, width - 1)  # repeated members change nothing
    places = np.arange(x.elements).reshape(x.shape)
    taps = [x.take(places[:, r][:, :, k], out.shape) for r in rows for k in columns]
    return extremum(t, kind, taps, out.shape, out.dtype)


def reduce(t: Terms, kind: str, attrs: Mapping[str, Any], x: Value, out: Type) -> Value:
    """Returns the term of a REDUCE_MAX, REDUCE_MIN, REDUCE_ANY or REDUCE_ALL."""
    places = np.moveaxis(np.arange(x.elements).reshape(x.shape), attrs["axis"], 0)
    x = _for_members_of(t, kind, x, len(places), out)
    return extremum(t, kind, [x.take(p, out.shape) for p in places], out.shape, out.dtype)


def _for_members_of(t: Terms, kind: str, x: Value, times: int, out: Type) -> Value:
    """Returns `x` for an extremum of `times` as many members; sets of the other kind, or too large, become roots."""
    if x.members > 1 and x.extremum == kind and times * x.members * prod(out.shape) > _LARGEST_SETS:
        x = x.distinct()
    too_large = times * x.members * prod(out.shape) > _LARGEST_SETS
    return t.collapse(x) if x.members > 1 and (too_large or x.extremum != kind) else x
