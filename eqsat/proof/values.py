"""Tensors as terms: each element is a function in normal form of a root. A root is a point of the prime fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.field import LANES, WORD_BITS, Field, Lanes, Words, pairs, words
from eqsat.proof.functions import IDENTITY, Functions, Ints
from eqsat.proof.steps import LARGEST, Undecidable
from eqsat.tensor.ops import OPS
from eqsat.tensor.types import Allowed, DType, Shape, Type

#: Steps whose parameters are integers, or arrays with one entry per variant.
Steps = Sequence[tuple[Any, ...]]
#: Dtype of intermediate numbers, which no tensor holds.
UNLIMITED = ""
#: Limits of intermediate numbers: those of products of INT32. INT64 has room for their difference.
_UNLIMITED = (-(1 << 62) + (1 << 31), 1 << 62)
#: Number of the first pair (`pairs.py`), where no interval of a tensor's value begins.
FIRST_PAIR = 1 << 50
#: Members of a set that are processed together, over all its elements.
_AT_ONCE = 1 << 20
#: Steps within a bucket of `Known`; lanes of small constants, which are not random, have crowded ones.
_STEPS = 16
#: Range of numbers, divided by how many there are, beyond which sorting finds the distinct ones faster than a table.
_TABLE = 16


@dataclass(slots=True)
class Value:
    """The term of a tensor.

    roots: [LANES, members * elements]. functions: their numbers, [members * elements].
    degree: of the roots as polynomials.
    members: if more than one, each element is the extremum of so many; members are outermost.
    extremum: "max" or "min" if there are several members, else "".
    """

    shape: Shape
    dtype: str
    roots: Lanes
    functions: Ints
    degree: int = 1
    members: int = 1
    extremum: str = ""

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def take(self, at: Ints, shape: Shape | None = None, dtype: str | None = None) -> Value:
        """Returns the elements at these flat indices, in this order."""
        at = at.reshape(-1)
        shape = shape or (len(at),)
        if self.members > 1:
            at = (np.arange(self.members)[:, None] * self.elements + at).reshape(-1)
        roots, functions = self.roots[:, at], self.functions[at]
        return replace(self, roots=roots, functions=functions, shape=shape, dtype=dtype or self.dtype)

    def distinct(self) -> Value:
        """Returns the value with as many members as the element with the most different ones has."""
        first, second = (w.reshape(self.members, -1) for w in words(self.roots))
        functions = self.functions.reshape(self.members, -1)
        order = np.lexsort((functions, second, first), axis=0)
        keys = [np.take_along_axis(k, order, 0) for k in (first, second, functions)]
        new = np.ones(order.shape, bool)
        new[1:] = np.logical_or.reduce([k[1:] != k[:-1] for k in keys])
        members = int(new.sum(0).max())
        kept = np.argsort(~new, 0, kind="stable")[:members]
        kept = np.where(np.take_along_axis(new, kept, 0), kept, kept[:1])
        at = (np.take_along_axis(order, kept, 0) * self.elements + np.arange(self.elements)).reshape(-1)
        extremum = self.extremum if members > 1 else ""
        return replace(self, roots=self.roots[:, at], functions=self.functions[at], members=members, extremum=extremum)

    def broadcast(self, shape: Shape) -> Value:
        if self.shape == shape:
            return self
        at = np.broadcast_to(np.arange(self.elements).reshape(self.shape), shape)
        return self.take(at, shape)

    def flat(self) -> Value:
        """Returns all members as elements of their own."""
        return replace(self, shape=(len(self.functions),), members=1, extremum="")


class Known:
    """Functions (or numbers) known for the roots of a graph, so that equal roots of another get the same intervals.

    Words of lanes are random numbers, so they are found by buckets of their highest bits.
    """

    def __init__(self, parts: Sequence[tuple[Words, Words, Ints]]) -> None:
        empty = (np.zeros(0, np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))
        first, second, functions = (np.concatenate(p) for p in zip(empty, *parts))
        order = np.argsort(first, kind="stable")
        self._first, self._second, self._functions = first[order], second[order], functions[order]
        bits = max(1, len(first).bit_length() - 1)
        self._shift = np.uint64(WORD_BITS - bits)
        buckets = np.arange((1 << bits) + 1, dtype=np.uint64)
        self._starts = np.searchsorted(self._first >> self._shift, buckets)

    @property
    def is_ambiguous(self) -> bool:
        """Whether equal roots occurred with different functions; `find` gives the first of them."""
        same = (self._first[1:] == self._first[:-1]) & (self._second[1:] == self._second[:-1])
        return bool((same & (self._functions[1:] != self._functions[:-1])).any())

    def find(self, lanes: Lanes) -> tuple[NDArray[np.bool_], Ints]:
        """Returns which roots are known, [elements], and the functions of those."""
        first, second = words(lanes)
        if not len(self._first):
            return np.zeros(len(first), bool), np.zeros(0, np.int64)
        at = np.minimum(self._places(first), len(self._first) - 1)
        found = (self._first[at] == first) & (self._second[at] == second)
        return found, self._functions[at[found]]

    def _places(self, first: Words) -> Ints:
        """Returns `np.searchsorted(self._first, first)`, in a tenth of the time for millions of roots."""
        bucket = (first >> self._shift).astype(np.int64)
        at, end = self._starts[bucket], self._starts[bucket + 1]
        left = np.arange(len(first))
        for _ in range(_STEPS):
            left = left[at[left] < end[left]]
            left = left[self._first[at[left]] < first[left]]
            if not len(left):
                return at
            at[left] += 1
        at[left] = np.searchsorted(self._first, first[left])
        return at


class Tables(Protocol):
    """Tables of functions of two values, which `Terms.pairs` may hold."""

    def lift(self, t: Terms, xs: Sequence[Value]) -> tuple[NDArray[np.bool_], list[Value]]:
        """Returns which elements depend on two small values, and these of each operand as functions of them."""

    def lanes(self, t: Terms, v: Value) -> Lanes:
        """Returns the lanes of elements that are functions of pairs. Raises Undecidable."""


class Terms:
    """Makes and composes the terms of one graph.

    Counts what determines the probability of error, and notes what TOSA requires where elements may not meet it.
    source: terms of the graph that this one is compared with, whose numbering is shared.
    teaches: another graph will be compared with this one.
    pairs: tables of functions of two small values, if wanted.
    """

    def __init__(self, field: Field, source: Terms | None = None, teaches: bool = False) -> None:
        self.field = field
        self.pairs: Tables | None = None
        self.functions: Functions = source.functions if source else Functions()
        self.elements, self.degree = 0, 1
        #: The node that is being evaluated.
        self.node = -1
        #: (node, hashes of what it requires, as that an element does not overflow).
        self.open: list[tuple[int, Lanes]] = []
        self._known, self._teaches = source.known if source else None, teaches or source is None
        self._made: list[tuple[Words, Words, Ints]] = []
        self._symbols: dict[Any, int] = source._symbols if source else {}

    @cached_property
    def known(self) -> Known:
        """The intervals of this graph's roots for another graph, once this one is evaluated."""
        return Known(self._made)

    @cached_property
    def noted(self) -> set[tuple[int, int]]:
        """What is required, once this graph is evaluated."""
        return {pair for _, lanes in self.open for pair in pairs(lanes)}

    def beyond(self, source: Terms) -> set[int]:
        """Returns the nodes that require what another graph does not."""
        return {n for n, lanes in self.open if not source.noted.issuperset(pairs(lanes))}

    def symbol(self, *name: Any) -> int:
        """Returns the number of a function symbol; it is negative, unlike forms of `Functions`."""
        return ~self._symbols.setdefault(name, len(self._symbols))

    # ---- leaves ----------------------------------------------------------------------------------

    def constant(self, values: NDArray[Any], dtype: str) -> Value:
        distinct, inverse = unique(values.astype(np.int64).reshape(-1))
        numbers = np.array([self.functions.constant(c) for c in distinct.tolist()], np.int64)
        return Value(values.shape, dtype, np.zeros((LANES, values.size), np.int64), numbers[inverse])

    def with_constant(self, v: Value, constant: int) -> Value:
        """Returns the elements as one row with a constant appended, whose index is the old length."""
        return join([self.plain(v), self.constant(np.array([constant]), v.dtype)])

    def root(
        self, lanes: Lanes, shape: Shape, dtype: str, limits: tuple[Any, Any] | None = None, degree: int = 1
    ) -> Value:
        """Returns new roots.

        limits: lowest and highest value, which broadcast to the shape; None: those of the dtype.
        Raises Undecidable for intermediate numbers that are too large.
        """
        self.elements += lanes.shape[1]
        self.degree = max(self.degree, degree)
        most = limits_of(dtype)
        low, high = most if limits is None else limits
        low, high = (np.broadcast_to(np.asarray(x, np.int64), shape).reshape(-1) for x in (low, high))
        pairs, inverse = unique_rows(np.maximum(low, most[0]), np.minimum(high, most[1]))
        numbers = np.array([self.functions.identity(*map(int, pair)) for pair in pairs], np.int64)
        out = Value(shape, dtype, lanes, numbers[inverse], degree)
        if limits is not None:
            self._narrow(out)
            self._fit(lanes, dtype, (low < most[0]) | (high > most[1]))
        return out

    def affine_root(
        self,
        lanes: Lanes,
        shape: Shape,
        dtype: str,
        limits: tuple[Ints, Ints],
        summand: Ints,
        degree: int,
        factor: Ints | int = 1,
    ) -> Value:
        """Returns factor * root + summand for new roots.

        limits: of the roots. They are required to be in the dtype, and others left out of the interval.
        A root that is zero at a random point is zero everywhere, as that of a product with zeros.
        Raises Undecidable.
        """
        if (np.abs(summand) >= LARGEST).any():
            raise Undecidable("a sum that 64 bits have no room for")
        factor = np.broadcast_to(factor, summand.shape)
        least, most = limits_of(dtype)
        low, high = limits
        beyond = (low * factor + summand < least) | (high * factor + summand > most)
        low, high = np.maximum(low, -((summand - least) // factor)), np.minimum(high, (most - summand) // factor)
        vanishes = (lanes == 0).all(0)
        low, high = np.where(vanishes, 0, low), np.where(vanishes, 0, high)
        root = self.root(lanes, shape, UNLIMITED, (low, np.maximum(low, high)), degree)
        out = self.line(root, factor, summand, dtype)
        self._fit(out, dtype, beyond)
        return out

    def _narrow(self, v: Value) -> None:
        """Replaces intervals by those that the other graph has for equal roots."""
        if self._known is not None:
            found, functions = self._known.find(v.roots)
            v.functions[found] = functions
        if self._teaches:
            self._made.append((*words(v.roots), v.functions.copy()))

    def apply(self, symbol: int, shape: Shape, dtype: str, *operands: Lanes, limits: Any = None) -> Value:
        """Returns the term of a function symbol applied to operands."""
        return self.root(self.field.apply(symbol, *operands), shape, dtype, limits)

    def number(self, symbol: int, shape: Shape, dtype: str) -> Value:
        """Returns one independent root per element: a function symbol of its number."""
        return self.apply(symbol, shape, dtype, self.field.constants(np.arange(prod(shape))))

    # ---- reading ---------------------------------------------------------------------------------

    def limits(self, v: Value) -> tuple[Ints, Ints]:
        """Returns the lowest and highest value of each element."""
        low, high = (self.functions.column(name)[v.functions] for name in ("low", "high"))
        if v.members == 1:
            return low, high
        best = np.max if v.extremum == "max" else np.min
        return best(low.reshape(v.members, -1), 0), best(high.reshape(v.members, -1), 0)

    def within(self, v: Value) -> tuple[Ints, Ints]:
        """Returns the limits of each element within its dtype, whose sums and products do not overflow int64."""
        low, high = self.limits(v)
        return low.clip(*limits_of(v.dtype)), high.clip(*limits_of(v.dtype))

    def is_constant(self, v: Value) -> NDArray[np.bool_]:
        """Whether each element is constant."""
        low, high = self.limits(v)
        return np.asarray(low == high)

    def concrete(self, v: Value) -> Ints | None:
        """Returns the integers if all elements are constant, else None."""
        low, high = self.limits(v)
        return low.reshape(v.shape) if (low == high).all() else None

    def lanes(self, v: Value) -> Lanes:
        """Returns the values as points of the fields, [LANES, elements]."""
        v = self.plain(v)
        used, inverse = unique(v.functions)
        a, b, g = (self.functions.column(name)[used] for name in ("a", "b", "g"))
        out = v.roots
        if (g != IDENTITY).any():
            applied = (g != IDENTITY)[inverse]
            keys = self.field.keys(g)
            hashed = tuple(k[inverse[applied]] for k in keys)
            out = out.copy()
            out[:, applied] = self.field.hash_keys((hashed[0], hashed[1]), out[:, applied])
        if (a != 1).any() or b.any():
            factors, summands = self.field.constants(a)[:, inverse], self.field.constants(b)[:, inverse]
            out = self.field.reduce(out * factors + summands)
        if self.pairs is not None:
            paired = (self.functions.column("first")[used] == FIRST_PAIR)[inverse]
            if paired.any():
                out = out.copy()
                out[:, paired] = self.pairs.lanes(self, v.take(np.flatnonzero(paired)))
        return out

    def degree_of(self, v: Value) -> int:
        """Returns the degree of the values as polynomials, in which hashes are variables."""
        used = unique(v.functions)[0]
        linear = (self.functions.column("g")[used] == IDENTITY) & (self.functions.column("a")[used] != 0)
        linear |= self.functions.column("first")[used] == FIRST_PAIR
        return v.degree if v.members == 1 and linear.any() else 1

    # ---- terms of terms --------------------------------------------------------------------------

    def collapse(self, v: Value) -> Value:
        """Returns the value with its elements as roots, except constants."""
        if v.members > 1:
            return self._collapse_set(v)
        return self._as_root(v, self.lanes(v))

    def _as_root(self, v: Value, lanes: Lanes) -> Value:
        kind = DType.of(v.dtype)
        low, high = self.limits(v)
        wide = not kind.is_integral or kind.bits > 16
        out = self.root(
            lanes, v.shape, v.dtype, (low.reshape(v.shape), high.reshape(v.shape)) if wide else None, self.degree_of(v)
        )
        constant = low == high
        out.functions[constant] = v.functions[: v.elements][constant] if v.members == 1 else out.functions[constant]
        return out

    def _collapse_set(self, v: Value) -> Value:
        """Returns an extremum as roots: its only member, or a hash of the sum of its different members' hashes."""
        size = max(1, _AT_ONCE // v.members)
        if v.elements > size:
            places = (np.arange(k, min(k + size, v.elements)) for k in range(0, v.elements, size))
            return replace(join([self._collapse_set(v.take(at)) for at in places]), shape=v.shape)
        flat = v.flat()
        low, high = (x.reshape(v.members, -1) for x in self.limits(flat))
        lanes = self.lanes(flat).reshape(LANES, v.members, -1)
        first, second = (w.reshape(v.members, -1) for w in words(lanes.reshape(LANES, -1)))
        order = np.argsort(first, 0, kind="stable")
        first, second = (np.take_along_axis(w, order, 0) for w in (first, second))
        lanes = np.take_along_axis(lanes, order[None], 1)
        new = np.ones(order.shape, bool)
        new[1:] = (first[1:] != first[:-1]) | (second[1:] != second[:-1])
        low, high = (np.take_along_axis(x, order, 0) for x in (low, high))
        new &= ~_find_dominated(low, high) if v.extremum == "max" else ~_find_dominated(-high, -low)
        single = new.sum(0) == 1
        hashed = self.field.apply(self.symbol(v.extremum), lanes.reshape(LANES, -1)).reshape(lanes.shape)
        total = self.field.reduce((hashed * new).sum(1))
        out = self._as_root(v, self.field.apply(self.symbol("set"), total))
        if single.any():
            chosen = np.take_along_axis(order, new.argmax(0)[None], 0)[0] * v.elements + np.arange(v.elements)
            one = flat.take(chosen[single])
            out.roots[:, single], out.functions[single] = one.roots, one.functions
        return out

    def step(self, v: Value, steps: Steps, dtype: str, variant: Ints | None = None) -> Value:
        """Returns the value after some steps (`steps.py`).

        variant: for each element, its entry in parameters that are arrays.
        """
        if v.members > 1:
            signs = [np.unique(np.sign(step[1])).tolist() for step in steps if step[0] != "clip"]
            if any(len(s) > 1 for s in signs):
                v = self.collapse(v)
            elif signs.count([-1]) % 2:
                v = replace(v, extremum="min" if v.extremum == "max" else "max")
            variant = None if variant is None else np.tile(variant, v.members)
        rows, inverse = unique_rows(v.functions, np.zeros(1, np.int64) if variant is None else variant)
        functions = rows[:, 0]
        for kind, *parameters in steps:
            if (kind, *(p for p in parameters if np.ndim(p) == 0)) == ("affine", 1, 0):
                continue
            columns = [
                np.broadcast_to(p, len(rows)) if np.ndim(p) == 0 else np.asarray(p)[rows[:, 1]] for p in parameters
            ]
            functions = self.functions.compose(functions, kind, columns)
        return self._settle(replace(v, functions=functions[inverse], dtype=dtype))

    def line(self, v: Value, factor: Ints, summand: Ints, dtype: str) -> Value:
        """Returns factor * v + summand, both of which have one entry per element."""
        pairs, variant = unique_rows(factor, summand)
        return self.step(v, [("affine", pairs[:, 0], pairs[:, 1])], dtype, variant)

    def _settle(self, v: Value) -> Value:
        """Returns an INT16 value whose functions are all finite; chains become roots."""
        if v.dtype != "INT16":
            return v
        used, _inverse = unique(v.functions)
        finite = self.functions.is_finite(used) | (self.functions.column("g")[used] == IDENTITY)
        return v if finite.all() else self.collapse(v)

    def tabulate(
        self, v: Value, function: Callable[[Ints, Ints], Ints], dtype: str, variant: Ints | None = None
    ) -> Value | None:
        """Returns function(values, variants) of each element; None if there are too many values."""
        v = self.plain(v)
        if not self.is_finite(v):
            v = self.collapse(v)
            if not self.is_finite(v):
                return None
        return self.map(v, function, dtype, variant)

    def map(self, v: Value, function: Callable[[Ints, Ints], Ints], dtype: str, variant: Ints | None = None) -> Value:
        """Returns function(values, variants) of each element, all of which are finite functions."""
        variant = np.zeros(1, np.int64) if variant is None else variant
        rows, inverse = unique_rows(v.functions, variant)
        numbers = self.functions.tabulate(rows[:, 0], lambda x, row: function(x, rows[row, 1]))
        return replace(v, functions=numbers[inverse], dtype=dtype)

    def recognize(self, v: Value) -> Value:
        """Returns the value with its chains replaced as in `Functions.recognize`."""
        used, inverse = unique(v.functions)
        return replace(v, functions=self.functions.recognize(used)[inverse])

    def may_move(self, v: Value) -> NDArray[np.bool_]:
        """Whether each element's function may be applied to other roots; not if it is of pairs."""
        return np.asarray(self.functions.column("first")[v.functions] != FIRST_PAIR)

    def strip(self, v: Value, chosen: NDArray[np.bool_]) -> Value:
        """Returns the value with the chosen elements replaced by their roots."""
        used, inverse = unique(v.functions)
        ends = zip(*(self.functions.column(name)[used].tolist() for name in ("first", "last", "a")))
        bare = [self.functions.identity(k, m) if a else f for (k, m, a), f in zip(ends, used.tolist())]
        return replace(v, functions=np.where(chosen, np.array(bare, np.int64)[inverse], v.functions))

    def plain(self, v: Value) -> Value:
        """Returns the value with one member per element."""
        return self._collapse_set(v) if v.members > 1 else v

    def is_finite(self, v: Value) -> bool:
        """Whether the functions of all elements are finite."""
        return bool(self.functions.is_finite(unique(v.functions)[0]).all())

    def outside(self, v: Value, least: int, most: int) -> NDArray[np.bool_]:
        """Whether each element may be less than `least` or more than `most`."""
        low, high = self.limits(v)
        return np.asarray((low < least) | (high > most))

    # ---- what is required ------------------------------------------------------------------------

    def note(self, lanes: Lanes, *what: Any) -> None:
        """Notes that something is required of each element."""
        self.open.append((self.node, self.field.apply(self.symbol("required", *what), lanes)))

    def require(self, v: Value, least: int, most: int, *what: Any) -> None:
        """Notes that elements have to be from `least` to `most`, unless they are known to be."""
        outside = self.outside(v, least, most)
        if outside.any():
            self.note(self.lanes(v)[:, outside], least, most, *what)

    def _fit(self, v: Value | Lanes, dtype: str, chosen: NDArray[np.bool_]) -> None:
        """Notes that the chosen elements have to be within their dtype. Raises Undecidable for intermediate numbers."""
        if not chosen.any():
            return
        if dtype == UNLIMITED:
            raise Undecidable("a number that 64 bits have no room for")
        self.note((self.lanes(v) if isinstance(v, Value) else v)[:, chosen], *limits_of(dtype))

    def bound(self, v: Value) -> Value:
        """Requires elements to be within their dtype, and returns the value."""
        if v.dtype != UNLIMITED:
            self.require(v, *limits_of(v.dtype))
        return v

    def wrap(self, v: Value, dtype: str) -> Value:
        """Returns the lowest bits of a value, as many as the dtype has."""
        beyond = self.outside(v, *limits_of(dtype))
        if dtype == UNLIMITED or not beyond.any():
            return replace(v, dtype=dtype)
        v, (least, most) = self.plain(v), limits_of(dtype)
        part = v.take(np.flatnonzero(beyond))
        if self.is_finite(part):
            part = self.map(part, lambda x, _: (x - least) % (most - least + 1) + least, dtype)
        else:
            part = self.apply(self.symbol("wrapped", least, most), (part.elements,), dtype, self.lanes(part))
        return merge(v.shape, dtype, [(beyond, part), (~beyond, v.take(np.flatnonzero(~beyond)))])

    def accumulate(self, v: Value, dtype: str) -> Value:
        """Returns a sum of products in its dtype.

        It has to be within it by TOSA's specification, and wraps around in the reference model.
        """
        self.require(v, *limits_of(dtype))
        return self.wrap(v, dtype)

    def require_allowed(self, op: str, attrs: Mapping[str, Any], xs: Sequence[Value]) -> None:
        """Notes that the operands of an operator have to be as TOSA allows them, where they may not be."""
        if (allowed := OPS[op].allowed) is not None:
            for k, values in allowed(attrs, [Type(x.shape, x.dtype) for x in xs]).items():
                self._require(xs[k], values)

    def _require(self, v: Value, allowed: Allowed) -> None:
        if allowed.channels:
            channels = np.arange(v.elements).reshape(v.shape)
            for c, own in enumerate(allowed.channels):
                self._require(v.take(channels[..., c]), own)
            return
        self.require(v, *allowed.limits(*limits_of(v.dtype)))
        if allowed.never and (met := self._meets(v, allowed.never)).any():
            self.note(self.lanes(v)[:, met], "not", allowed.never)
        if allowed.distinct and not self._are_distinct(v):
            self.note(self.field.digest(self.symbol("distinct", v.shape), self.lanes(v)[:, :, None]))

    def _meets(self, v: Value, never: Sequence[int]) -> NDArray[np.bool_]:
        """Whether each element may be one of some values, which are sorted."""
        if v.members > 1:
            low, high = self.limits(v)
            return np.asarray(np.searchsorted(never, low) < np.searchsorted(never, high, "right"))
        used, inverse = unique(v.functions)
        low, high = (self.functions.column(name)[used] for name in ("low", "high"))
        met = np.searchsorted(never, low) < np.searchsorted(never, high, "right")
        for k in np.flatnonzero(met & self.functions.is_finite(used)).tolist():
            met[k] = np.isin(self.functions.pieces(used[k : k + 1]).value, never).any()
        return np.asarray(met[inverse])

    def _are_distinct(self, v: Value) -> bool:
        """Whether all elements along the last axis are constant, and different."""
        values = self.concrete(v)
        return values is not None and bool(np.diff(np.sort(values)).all())


def limits_of(dtype: str) -> tuple[int, int]:
    """Returns the lowest and highest number of a dtype, or of intermediate numbers."""
    kind = DType.of(dtype)
    return kind.limits if kind.is_integral else _UNLIMITED


def _find_dominated(low: Ints, high: Ints) -> NDArray[np.bool_]:
    """Whether each of several values [values, elements] is never the only maximum, by its limits."""
    best = low.max(0)
    leads = low == best
    varies = (leads & (high > best)).any(0)
    out: NDArray[np.bool_] = (high <= best) & (~leads | varies)
    return out


def merge(shape: Shape, dtype: str, parts: Sequence[tuple[NDArray[np.bool_], Value]]) -> Value:
    """Returns one tensor from values that lie where their masks are true."""
    n = prod(shape)
    if len(parts) == 1:
        return replace(parts[0][1], shape=shape, dtype=dtype)
    out = Value(shape, dtype, np.zeros((LANES, n), np.int64), np.zeros(n, np.int64), max(v.degree for _, v in parts))
    for mask, v in parts:
        out.roots[:, mask], out.functions[mask] = v.roots, v.functions
    return out


def join(values: Sequence[Value]) -> Value:
    """Returns the elements of all values as one row, in order; the values have equally many members."""
    members = values[0].members
    roots = np.concatenate([v.roots.reshape(LANES, members, -1) for v in values], 2).reshape(LANES, -1)
    functions = np.concatenate([v.functions.reshape(members, -1) for v in values], 1).reshape(-1)
    shape, degree = (sum(v.elements for v in values),), max(v.degree for v in values)
    return replace(values[0], shape=shape, roots=roots, functions=functions, degree=degree)


def unique(numbers: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct numbers in ascending order, and the index of each number among them."""
    if not len(numbers):
        return numbers, numbers
    low = int(numbers.min())
    span = int(numbers.max()) - low + 1
    if span > _TABLE * len(numbers):
        distinct, inverse = np.unique(numbers, return_inverse=True)
        return distinct, inverse.reshape(-1)
    place = np.zeros(span, np.int64)
    place[numbers - low] = 1
    distinct = np.flatnonzero(place)
    place[distinct] = np.arange(len(distinct))
    return distinct + low, place[numbers - low]


def unique_rows(one: Ints, other: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct pairs [rows, 2], and the index of each pair; `other` broadcasts."""
    a, left = unique(np.ascontiguousarray(one))
    b, right = unique(np.ascontiguousarray(other))
    pairs, inverse = unique(left * len(b) + right)
    return np.stack([a[pairs // len(b)], b[pairs % len(b)]], 1), inverse
