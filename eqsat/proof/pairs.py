"""Functions of two small values in a normal form: the table of their results for all pairs.

A small value has at most 256 codes: it is an INT8 or BOOL root, or the number of the piece of a function of any other
root. What depends on two of them is a function of one root, the pair, whose values are numbered. As a point of the
fields it is what sums and products of functions of one value make of it, where its table is that, so that polynomials
of more values meet.

This is for a second look at graphs that are not proved without: tables of 65,536 entries take time.
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
#: The numbers of pairs, every other one: so no function of them is a line.
_PAIRS = FIRST_PAIR + 2 * np.arange(CODES**2)
#: Tables that are made at most, and elements of one graph that have some, of a hundred bytes each.
_MOST, _ELEMENTS = 2048, 1 << 22
#: Results that int64 has room for differences of, and for products of.
_DIFFERENCES, _PRODUCTS = 1 << 60, 1 << 31
_NONE = -1


@dataclass(frozen=True, slots=True)
class _Small:
    """A function as one of the number of a code. code: the function that numbers them; values: of each code."""

    code: int
    values: Ints


@dataclass(frozen=True, slots=True)
class _Parts:
    """A function of a pair as a constant, functions of either value, and so many times a product of functions of both.

    unlike: what is in place of the product where it is none, as a digest; b"" where it is one.
    """

    constant: int
    factor: int
    unlike: bytes
    left: int
    right: int
    rises: int
    widens: int


@dataclass(slots=True)
class _Slots:
    """Up to two bases of each element: roots [2, LANES, elements], and the functions that number their codes, if there
    are any."""

    roots: NDArray[np.int64]
    codes: NDArray[np.int64]
    fits: NDArray[np.bool_]

    @staticmethod
    def empty(elements: int) -> _Slots:
        roots = np.zeros((2, LANES, elements), np.int64)
        return _Slots(roots, np.full((2, elements), _NONE), np.ones(elements, bool))

    def add(self, roots: Lanes, codes: Ints) -> None:
        """A base of each element that has one."""
        left = codes != _NONE
        for k in range(2):
            free = left & (self.codes[k] == _NONE)
            self.roots[k][:, free], self.codes[k][free] = roots[:, free], codes[free]
            left = left & ~((self.codes[k] == codes) & (self.roots[k] == roots).all(0))
        self.fits &= ~left

    def sort(self) -> None:
        """The smaller one first."""
        keys = np.concatenate([self.roots, self.codes[:, None]], 1)
        unlike = (keys[0] != keys[1]).argmax(0)[None]
        turned = (np.take_along_axis(keys[0], unlike, 0) > np.take_along_axis(keys[1], unlike, 0))[0]
        self.roots[..., turned] = self.roots[::-1][..., turned]
        self.codes[:, turned] = self.codes[::-1][:, turned]


class Pairs:
    """The pairs of one graph. functions: of both graphs."""

    def __init__(self, functions: Functions) -> None:
        self._functions = functions
        self._small: dict[int, _Small | None] = {}
        self._lifted: dict[tuple[int, int], int] = {}
        self._parts: dict[tuple[int, ...], _Parts] = {}
        self._known: list[tuple[Known, _Slots]] = []
        self._left = _ELEMENTS

    # ---- operands ----------------------------------------------------------------------------------

    def lifted(self, t: Terms, xs: Sequence[Value]) -> tuple[NDArray[np.bool_], list[Value]]:
        """Of which elements the operands depend on two small values, and those of the operands as functions of
        them."""
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
        roots = self._rooted(t, slots, degree)
        at = np.flatnonzero(mask)
        return mask, [replace(self._as_pair(v.moved(at), slots, roots), degree=degree) for v in xs]

    def _add(self, slots: _Slots, v: Value) -> None:
        """The bases of a value's elements."""
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
        """What pairs are made of; those that are known fit."""
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
        """A function of few codes, None of others, of constants and of pairs."""
        if f not in self._small:
            self._small[f] = self._made_small(f)
        return self._small[f]

    def _made_small(self, f: int) -> _Small | None:
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

    def _rooted(self, t: Terms, slots: _Slots, degree: int) -> Lanes:
        """Roots of pairs, whose bases are remembered. degree: of products of functions of both."""
        keys = t.field.keys(np.full(slots.codes.shape[1], t.symbol("pair")))
        roots = t.field.hashed(keys, *slots.roots, *(t.field.constants(c) for c in slots.codes))
        t.elements, t.degree = t.elements + roots.shape[1], max(t.degree, degree)
        self._left -= roots.shape[1]
        self._known.append((Known([(*words(roots), np.arange(roots.shape[1]))]), slots))
        return roots

    def _as_pair(self, v: Value, slots: _Slots, roots: Lanes) -> Value:
        """A value of one of two bases, or of both."""
        used, inverse = np.unique(v.functions, return_inverse=True)
        codes = np.array([s.code if (s := self._small_of(f)) else _NONE for f in used.tolist()])[inverse]
        second = (slots.codes[1] == codes) & (slots.roots[1] == v.roots).all(0)
        second &= ~((slots.codes[0] == codes) & (slots.roots[0] == v.roots).all(0))
        rows, which = np.unique(np.stack([v.functions, second.astype(np.int64)]), axis=1, return_inverse=True)
        numbers = np.array([self._lift(f, side) for f, side in rows.T.tolist()])
        return replace(v, roots=roots, functions=numbers[which.reshape(-1)])

    def _lift(self, f: int, side: int) -> int:
        """A function of one side as one of the pair; of others the same."""
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
        """Of elements that are functions of pairs."""
        known = self._bases(v.roots)
        if not known.fits.all():
            raise Undecidable("a value of which nothing is known")
        rows, which = np.unique(np.stack([v.functions, *known.codes]), axis=1, return_inverse=True)
        which = which.reshape(-1)
        parts = [self._split(tuple(row)) for row in rows.T.tolist()]

        def of(side: int, name: str) -> Lanes:
            functions = np.array([getattr(p, name) for p in parts])[which]
            return t.lanes(replace(v, roots=known.roots[side], functions=functions))

        product = of(0, "rises") * of(1, "widens")
        unlike = np.array([bool(p.unlike) for p in parts])[which]
        if unlike.any():
            symbols = np.array([t.symbol("of a pair", p.unlike) for p in parts])[which[unlike]]
            codes = (t.field.constants(c[unlike]) for c in known.codes)
            product[:, unlike] = t.field.hashed(t.field.keys(symbols), *known.roots[..., unlike], *codes)
        factor, constant = (np.array([getattr(p, k) for p in parts])[which] for k in ("factor", "constant"))
        product = t.field.reduced(product) * t.field.constants(factor)
        rest = of(0, "left") + of(1, "right") + t.field.constants(constant)
        return t.field.reduced(product + rest)

    def _split(self, row: tuple[int, ...]) -> _Parts:
        """A function of a pair, and the functions that number the codes of its values."""
        if row not in self._parts:
            f, *codes = row
            table = self._functions.values(f, _PAIRS).reshape(CODES, CODES)
            if np.abs(table).max() >= _DIFFERENCES:
                raise Undecidable("a result that 64 bits have no room for")
            constant = int(table[0, 0])
            left, right = table[:, 0] - constant, table[0] - constant
            rest = table - constant - left[:, None] - right
            factor, column, line, unlike = 0, np.zeros(CODES, np.int64), np.zeros(CODES, np.int64), b""
            if rest.any():
                i, j = (int(k[0]) for k in np.nonzero(rest))
                factor = int(np.gcd.reduce(rest.reshape(-1))) * (-1 if rest[i, j] < 0 else 1)
                rest //= factor
                rises, widens = rest[:, j] // np.gcd.reduce(rest[:, j]), rest[i] // np.gcd.reduce(rest[i])
                if np.abs(rest).max() < _PRODUCTS and (rest == rises[:, None] * widens).all():
                    column, line = rises, widens
                else:
                    unlike = digest(rest)
            sides = (codes[0], left), (codes[1], right), (codes[0], column), (codes[1], line)
            self._parts[row] = _Parts(constant, factor, unlike, *(self._of_code(*side) for side in sides))
        return self._parts[row]

    def _of_code(self, code: int, values: Ints) -> int:
        """A function of a small value by its codes."""
        return int(self._functions.tabulated(np.array([code]), lambda c, _: values[c])[0])
