"""Functions of two small values in a normal form: the table of results for all pairs.

A small value has at most 256 codes: it is an INT8 or BOOL root, or the piece number of a function of any other root.
A function of two small values is a function of one root, the pair, whose values are numbered.
A table may be a sum of functions of either value and one product of functions of both.
Its point in the fields is computed from these, so that it equals the same polynomial built from sums and products.

Tables of 65,536 entries take time, so they are used only where a proof fails without them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.field import LANES, Lanes, words
from eqsat.proof.functions import Functions, Ints, Pieces, digest
from eqsat.proof.steps import Undecidable
from eqsat.proof.values import FIRST_PAIR, Known, Terms, Value

#: Codes of a small value.
CODES = 256
#: Numbers of the pairs. They have gaps, so that no function of them is affine.
_PAIRS = FIRST_PAIR + 2 * np.arange(CODES**2)
#: Tables that are made, at most.
_MOST = 2048
#: Tables whose points in the fields are computed, at most; each takes about 5 ms.
_MOST_SPLIT = 4 * _MOST
#: Elements of one graph that become functions of pairs, at most; each takes about 100 bytes.
_ELEMENTS = 1 << 22
#: Absolute results below this have differences that int64 can hold.
_DIFFERENCES = 1 << 60
#: Absolute factors below this have products that int64 can hold.
_PRODUCTS = 1 << 31
#: In place of the number of a function: there is none.
_NONE = -1


@dataclass(frozen=True, slots=True)
class _Small:
    """A function of few results as a table over codes.

    code: the function from the root to its code. values: the result for each code.
    """

    code: int
    values: Ints


@dataclass(frozen=True, slots=True)
class _Parts:
    """constant + left(x) + right(y) + factor * product, for a function of the pair (x, y).

    The product is left_factor(x) * right_factor(y) if `not_product` is empty.
    Otherwise it is a function symbol that the digest `not_product` names.
    constant, factor: integers. The others: numbers of functions.
    """

    constant: int
    factor: int
    not_product: bytes
    left: int
    right: int
    left_factor: int
    right_factor: int


@dataclass(slots=True)
class _Slots:
    """The bases of each element: up to two small values that it depends on.

    roots: [2, LANES, elements]. codes: [2, elements], the functions to their codes, or `_NONE`.
    fits: whether an element has no more than two bases.
    """

    roots: NDArray[np.int64]
    codes: NDArray[np.int64]
    fits: NDArray[np.bool_]

    @staticmethod
    def empty(elements: int) -> _Slots:
        roots = np.zeros((2, LANES, elements), np.int64)
        return _Slots(roots, np.full((2, elements), _NONE), np.ones(elements, bool))

    def add(self, roots: Lanes, codes: Ints) -> None:
        """Adds a base to each element that has a code; a third base does not fit."""
        left = codes != _NONE
        for k in range(2):
            free = left & (self.codes[k] == _NONE)
            self.roots[k][:, free], self.codes[k][free] = roots[:, free], codes[free]
            left = left & ~((self.codes[k] == codes) & (self.roots[k] == roots).all(0))
        self.fits &= ~left

    def sort(self) -> None:
        """Orders the two bases of each element."""
        keys = np.concatenate([self.roots, self.codes[:, None]], 1)
        unlike = (keys[0] != keys[1]).argmax(0)[None]
        turned = (np.take_along_axis(keys[0], unlike, 0) > np.take_along_axis(keys[1], unlike, 0))[0]
        self.roots[..., turned] = self.roots[::-1][..., turned]
        self.codes[:, turned] = self.codes[::-1][:, turned]


class Pairs:
    """The pairs of one graph. functions: the functions of both graphs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._small: dict[int, _Small | None] = {}
        self._lifted: dict[tuple[int, int], int] = {}
        self._parts: dict[tuple[int, ...], _Parts] = {}
        self._known: list[tuple[Known, _Slots]] = []
        self._left = _ELEMENTS

    # ---- operands ----------------------------------------------------------------------------------

    def lift(self, t: Terms, xs: Sequence[Value]) -> tuple[NDArray[np.bool_], list[Value]]:
        """Returns which elements depend on two small values, and these of each operand as functions of them."""
        n = xs[0].elements
        nothing = np.zeros(n, bool), list(xs)
        if n > self._left or len(self._lifted) + len(self._parts) > _MOST or any(v.members > 1 for v in xs):
            return nothing
        slots = _Slots.empty(n)
        for v in xs:
            self._add(slots, v)
        slots.fits &= (slots.codes != _NONE).all(0)
        mask = slots.fits
        if not mask.any():
            return nothing
        slots = _Slots(slots.roots[..., mask], slots.codes[:, mask], mask[mask])
        slots.sort()
        degree = max(2, sum(v.degree for v in xs))
        roots = self._root(t, slots, degree)
        at = np.flatnonzero(mask)
        return mask, [replace(self._as_pair(v.take(at), slots, roots), degree=degree) for v in xs]

    def _add(self, slots: _Slots, v: Value) -> None:
        """Adds the bases of a value's elements."""
        used, inverse = np.unique(v.functions, return_inverse=True)
        first, factor = (self._functions.column(name)[used] for name in ("first", "a"))
        pairs, varies = (first == FIRST_PAIR)[inverse], (factor != 0)[inverse]
        codes = np.array([s.code if (s := self._small_of(f)) else _NONE for f in used.tolist()])[inverse]
        slots.fits &= ~varies | pairs | (codes != _NONE)
        slots.add(v.roots, np.where(varies & ~pairs, codes, _NONE))
        at = np.flatnonzero(pairs & varies)
        if len(at):
            known = self._bases(v.roots[:, at])
            slots.fits[at[~known.fits]] = False
            for side in range(2):
                roots, numbers = np.zeros_like(v.roots), np.full(v.elements, _NONE)
                roots[:, at], numbers[at] = known.roots[side], known.codes[side]
                slots.add(roots, numbers)

    def _bases(self, roots: Lanes) -> _Slots:
        """Returns the bases of pairs, given their roots; only known pairs fit."""
        out = _Slots.empty(roots.shape[1])
        left = np.arange(roots.shape[1])
        for known, slots in reversed(self._known):
            found, numbers = known.find(roots[:, left])
            out.roots[..., left[found]], out.codes[:, left[found]] = slots.roots[..., numbers], slots.codes[:, numbers]
            left = left[~found]
            if not len(left):
                break
        out.fits[left] = False
        return out

    def _small_of(self, f: int) -> _Small | None:
        """Returns a function as a table; None if it is constant, of pairs, or of too many codes."""
        if f not in self._small:
            self._small[f] = self._make_small(f)
        return self._small[f]

    def _make_small(self, f: int) -> _Small | None:
        functions = self._functions
        first, last, a = (int(functions.column(name)[f]) for name in ("first", "last", "a"))
        row = np.array([f])
        if a == 0 or first == FIRST_PAIR or not functions.is_finite(row).all():
            return None
        p = functions.pieces(row)
        start = np.arange(first, last + 1) if last - first < CODES else p.start
        if len(start) > CODES:
            return None
        numbers = np.arange(len(start))
        domain = np.array([first]), np.array([last])
        code = functions.from_pieces(Pieces(np.zeros_like(numbers), start, numbers), domain)
        return _Small(int(code[0]), functions.values(f, start))

    def _root(self, t: Terms, slots: _Slots, degree: int) -> Lanes:
        """Returns the roots of pairs and remembers their bases; degree: of products of functions of both."""
        roots = t.field.apply(t.symbol("pair"), *slots.roots, *(t.field.constants(c) for c in slots.codes))
        t.elements, t.degree = t.elements + roots.shape[1], max(t.degree, degree)
        self._left -= roots.shape[1]
        self._known.append((Known([(*words(roots), np.arange(roots.shape[1]))]), slots))
        return roots

    def _as_pair(self, v: Value, slots: _Slots, roots: Lanes) -> Value:
        """Returns a value, which depends on one or both bases, as a function of the pair."""
        used, inverse = np.unique(v.functions, return_inverse=True)
        codes = np.array([s.code if (s := self._small_of(f)) else _NONE for f in used.tolist()])[inverse]
        second = (slots.codes[1] == codes) & (slots.roots[1] == v.roots).all(0)
        second &= ~((slots.codes[0] == codes) & (slots.roots[0] == v.roots).all(0))
        rows, which = np.unique(np.stack([v.functions, second.astype(np.int64)]), axis=1, return_inverse=True)
        numbers = np.array([self._lift(f, side) for f, side in rows.T.tolist()])
        return replace(v, roots=roots, functions=numbers[which.reshape(-1)])

    def _lift(self, f: int, side: int) -> int:
        """Returns a function of the left (0) or right (1) value as one of the pair; one that is not small as it is."""
        small = self._small_of(f)
        if small is None:
            return f
        if (f, side) not in self._lifted:
            number = np.arange(len(_PAIRS))
            code = number % CODES if side else number // CODES
            value = small.values[np.minimum(code, len(small.values) - 1)]
            p = Pieces(np.zeros_like(number), _PAIRS, value)
            domain = _PAIRS[:1], _PAIRS[-1:]
            self._lifted[f, side] = int(self._functions.from_pieces(p, domain)[0])
        return self._lifted[f, side]

    # ---- points of the fields ------------------------------------------------------------------------

    def lanes(self, t: Terms, v: Value) -> Lanes:
        """Returns the lanes of elements that are functions of pairs. Raises Undecidable."""
        known = self._bases(v.roots)
        if not known.fits.all():
            raise Undecidable("a value of which nothing is known")
        rows, which = np.unique(np.stack([v.functions, *known.codes]), axis=1, return_inverse=True)
        which = which.reshape(-1)
        if len(self._parts) + rows.shape[1] > _MOST_SPLIT:
            raise Undecidable("more functions of two values than are looked at")
        parts = [self._split(tuple(row)) for row in rows.T.tolist()]

        def of(side: int, name: str) -> Lanes:
            functions = np.array([getattr(p, name) for p in parts])[which]
            return t.lanes(replace(v, roots=known.roots[side], functions=functions))

        product = of(0, "left_factor") * of(1, "right_factor")
        symbolic = np.array([bool(p.not_product) for p in parts])[which]
        if symbolic.any():
            symbols = np.array([t.symbol("of a pair", p.not_product) for p in parts])[which[symbolic]]
            codes = (t.field.constants(c[symbolic]) for c in known.codes)
            product[:, symbolic] = t.field.hash_keys(t.field.keys(symbols), *known.roots[..., symbolic], *codes)
        factor, constant = (np.array([getattr(p, k) for p in parts])[which] for k in ("factor", "constant"))
        product = t.field.reduce(product) * t.field.constants(factor)
        rest = of(0, "left") + of(1, "right") + t.field.constants(constant)
        return t.field.reduce(product + rest)

    def _split(self, row: tuple[int, ...]) -> _Parts:
        """Returns the parts of a function of a pair.

        row: (number of the function, numbers of the functions to the codes of both values).
        Raises Undecidable.
        """
        if row not in self._parts:
            f, *codes = row
            table = self._functions.values(f, _PAIRS).reshape(CODES, CODES)
            if np.abs(table).max() >= _DIFFERENCES:
                raise Undecidable("a result that 64 bits have no room for")
            constant = int(table[0, 0])
            left, right = table[:, 0] - constant, table[0] - constant
            rest = table - constant - left[:, None] - right
            factor, column, line, not_product = 0, np.zeros(CODES, np.int64), np.zeros(CODES, np.int64), b""
            if rest.any():
                i, j = (int(k[0]) for k in np.nonzero(rest))
                factor = int(np.gcd.reduce(rest.reshape(-1))) * (-1 if rest[i, j] < 0 else 1)
                rest //= factor
                down, across = rest[:, j] // np.gcd.reduce(rest[:, j]), rest[i] // np.gcd.reduce(rest[i])
                if np.abs(rest).max() < _PRODUCTS and (rest == down[:, None] * across).all():
                    column, line = down, across
                else:
                    not_product = digest(rest)
            sides = (codes[0], left), (codes[1], right), (codes[0], column), (codes[1], line)
            self._parts[row] = _Parts(constant, factor, not_product, *(self._of_code(*side) for side in sides))
        return self._parts[row]

    def _of_code(self, code: int, values: Ints) -> int:
        """Returns the function with these values for the codes of a small value."""
        return int(self._functions.tabulate(np.array([code]), lambda c, _: values[c])[0])
