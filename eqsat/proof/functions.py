"""Functions of one integer in a normal form: equal on the whole domain means equal numbers.

A function is a * g(x) + b on a domain of integers from first to last. g is one of
  identity  a constant has a = 0
  pieces    a step function with coprime values, the first of them 0.
            For any function of few results or on a small domain.
            It is exact: its thresholds come from inverted steps, or from all of the domain.
  chain     monotone steps (`steps.py`) in normal form, if there are too many results for pieces
Many functions are composed at once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eqsat.proof.steps import Step, Undecidable, first_reaching, is_decreasing, is_safe, normalize_scale, run, run_all

Ints = NDArray[np.int64]
IDENTITY = -1
INT16 = (-(1 << 15), (1 << 15) - 1)
#: Domains of fewer values (and INT16's) are enumerated even if there is a formula.
#: Functions of fewer results are brought into pieces.
_FEW = 1 << 10
#: Domains of up to so many values are enumerated if there is no formula.
_MANY = 1 << 16
#: Results up to which chains are compared by their thresholds.
#: Eight times those of INT16, because sums of windows over padding have no tighter limits.
_RECOGNIZED = 1 << 19
#: Pieces that are composed at a time, at most; each takes about 100 bytes meanwhile.
_BATCH = 1 << 21
#: Pieces of affine functions above which a step makes chains of them: those of 256 on INT16.
_MOST_AT_ONCE = 1 << 24
#: Pieces of all functions that are kept, at most; each takes 16 bytes.
_MOST_PIECES = 1 << 27
_NO_ROOM = "a scale that 64 bits have no room for"


@dataclass(slots=True)
class Pieces:
    """The pieces of several functions, one entry each: number of the function, first x, and value from there on."""

    row: Ints
    start: Ints
    value: Ints


class Table:
    """A growing table of integers with named columns."""

    def __init__(self, *names: str) -> None:
        self._places = {name: k for k, name in enumerate(names)}
        self._data, self._size = np.zeros((1024, len(names)), np.int64), 0

    def append(self, rows: Sequence[tuple[int, ...]]) -> None:
        end = self._size + len(rows)
        while end > len(self._data):
            self._data = np.concatenate([self._data, np.zeros_like(self._data)])
        self._data[self._size : end] = rows
        self._size = end

    def column(self, name: str) -> Ints:
        return self._data[: self._size, self._places[name]]

    def row(self, k: int) -> list[int]:
        row: list[int] = self._data[k].tolist()
        return row

    def rows(self, numbers: Ints) -> Ints:
        """Returns some rows as columns [columns, numbers]."""
        return self._data[numbers].T


class Functions:
    """All functions that occurred so far, numbered from 0."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, ...], int] = {}
        self._table = Table("first", "last", "g", "a", "b", "low", "high")
        #: For each g but the identity: the starts and values of its pieces, or the steps of its chain.
        self._forms: list[Any] = []
        #: For each g but the identity: the number of its pieces, 0 for a chain.
        self._kinds = Table("pieces")
        #: How many more pieces may be kept.
        self._room = _MOST_PIECES
        self._form_numbers: dict[Any, int] = {}
        self._known: dict[tuple[Any, ...], int] = {}
        #: {digest of its results: the first chain with them}, for `recognize`.
        self._by_results: dict[bytes, int] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def column(self, name: str) -> Ints:
        """Returns "first", "last" (the domain), "g", "a", "b", "low" or "high" (limits of results) of all functions."""
        return self._table.column(name)

    def _number(self, first: int, last: int, g: int, a: int, b: int, limits: tuple[int, int]) -> int:
        if a == 0:
            first, last, g, limits = 0, 0, IDENTITY, (b, b)
        key = (first, last, g, a, b)
        if (known := self._numbers.get(key)) is None:
            known = self._numbers[key] = len(self._numbers)
            self._table.append([(*key, *limits)])
        return known

    def _number_several(self, first: Ints, last: Ints, g: Ints, a: Ints, b: Ints, low: Ints, high: Ints) -> Ints:
        """Returns the numbers of several functions, each as `_number` does."""
        constant = a == 0
        first, last, g = (np.where(constant, x, y) for x, y in ((0, first), (0, last), (IDENTITY, g)))
        low, high = np.where(constant, b, low), np.where(constant, b, high)
        keys = list(zip(*(x.tolist() for x in (first, last, g, a, b))))
        before, numbers = len(self._numbers), self._numbers
        out = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        new, at = np.unique(out, return_index=True)
        at = at[new >= before]
        self._table.append(np.stack([x[at] for x in (first, last, g, a, b, low, high)], 1))
        return out

    # ---- leaves ----------------------------------------------------------------------------------

    def constant(self, value: int) -> int:
        return self._number(0, 0, IDENTITY, 0, value, (value, value))

    def identity(self, low: int, high: int) -> int:
        """Returns the identity on low..high, or a constant if the domain is one value."""
        return self._number(low, high, IDENTITY, 1, 0, (low, high)) if low < high else self.constant(low)

    # ---- pieces ----------------------------------------------------------------------------------

    def is_finite(self, rows: Ints, most: int = _MANY) -> NDArray[np.bool_]:
        """Whether each function is constant, in pieces, or affine on at most `most` values or INT16's."""
        first, last, g, a = (self.column(name)[rows] for name in ("first", "last", "g", "a"))
        small = (last - first < most) | ((first == INT16[0]) & (last == INT16[1]))
        out: NDArray[np.bool_] = (a == 0) | self._are_pieces(g) | ((g == IDENTITY) & small)
        return out

    def _new_form(self, form: Any, pieces: int) -> int:
        """Returns the number of a new form. Raises Undecidable if there is no room for its pieces."""
        self._room -= pieces
        if self._room < 0:
            raise Undecidable("more pieces of functions than are kept")
        self._kinds.append([(pieces,)])
        self._forms.append(form)
        return len(self._forms) - 1

    def _are_pieces(self, g: Ints) -> NDArray[np.bool_]:
        """Whether each g is in pieces."""
        if not self._forms:
            return np.zeros(len(g), bool)
        return np.asarray((g >= 0) & (self._kinds.column("pieces")[np.maximum(g, 0)] != 0))

    def _counts(self, rows: Ints) -> Ints:
        """Returns the number of pieces of each finite function."""
        first, last, g, a = (self.column(name)[rows] for name in ("first", "last", "g", "a"))
        alone = np.where(a == 0, 1, last - first + 1)
        return np.where(g >= 0, self._kinds.column("pieces")[np.maximum(g, 0)], alone) if self._forms else alone

    def _is_pieces(self, g: int) -> bool:
        return bool(self._kinds.column("pieces")[g])

    def pieces(self, rows: Ints) -> Pieces:
        """Returns the pieces of finite functions, including constants and identities."""
        first, last, g, a, b = (self.column(name)[rows] for name in ("first", "last", "g", "a", "b"))
        starts, values = [], []
        for k in range(len(rows)):
            if g[k] >= 0:
                start, value = self._forms[g[k]]
            else:
                start = value = np.arange(first[k], last[k] + 1) if a[k] else np.zeros(1, np.int64)
            starts.append(start)
            values.append(value)
        row = np.repeat(np.arange(len(rows)), [len(s) for s in starts])
        return Pieces(row, np.concatenate(starts), np.concatenate(values) * a[row] + b[row])

    def from_pieces(self, p: Pieces, domains: tuple[Ints, Ints]) -> Ints:
        """Returns the functions, one per row (0, 1, ...), that pieces define on domains (firsts, lasts)."""
        is_first = np.concatenate([[True], p.row[1:] != p.row[:-1]])
        keep = is_first | np.concatenate([[True], p.value[1:] != p.value[:-1]])
        row, start, value, is_first = p.row[keep], p.start[keep], p.value[keep], is_first[keep]
        at = np.flatnonzero(is_first)
        change = np.where(is_first, 0, np.diff(value, prepend=0))
        a = np.gcd.reduceat(np.abs(change), at)
        sizes = np.diff(np.append(at, len(row)))
        a = np.where(sizes == 1, 0, np.where(change[np.minimum(at + 1, len(row) - 1)] < 0, -a, a))
        base = value[at]
        low, high = np.minimum.reduceat(value, at), np.maximum.reduceat(value, at)
        first, last = domains
        value = (value - base[row]) // np.where(a == 0, 1, a)[row]
        is_line = np.logical_and.reduceat(value == start - first[row], at) & (sizes == last - first + 1)
        g = np.full(len(at), IDENTITY, np.int64)
        ends = at + sizes
        for k in np.flatnonzero(~is_line & (sizes > 1)).tolist():
            g[k] = self._form(start[at[k] : ends[k]], value[at[k] : ends[k]])
        return self._number_several(first, last, g, a, np.where(is_line, base - a * first, base), low, high)

    def _form(self, start: Ints, value: Ints) -> int:
        key = digest(start, value)
        if (known := self._form_numbers.get(key)) is None:
            known = self._form_numbers[key] = self._new_form((start.copy(), value.copy()), len(start))
        return known

    # ---- values ----------------------------------------------------------------------------------

    def values(self, f: int, x: Ints) -> Ints:
        """Returns f(x) for values x of its domain."""
        g, a, b = (int(self.column(name)[f]) for name in ("g", "a", "b"))
        if g != IDENTITY:
            form = self._forms[g]
            x = form[1][np.searchsorted(form[0], x, "right") - 1] if self._is_pieces(g) else run_all(form, x)
        return np.asarray(a * x + b)

    def thresholds(self, f: int) -> Ints:
        """Returns the first x of each piece but the first, and x - 1; without pieces evenly spaced x."""
        g, first, last = (int(self.column(name)[f]) for name in ("g", "first", "last"))
        if g != IDENTITY and self._is_pieces(g):
            starts: Ints = self._forms[g][0][1:]
            return np.union1d(starts, starts - 1)
        return np.unique(np.linspace(first, last, 1025).astype(np.int64))

    def differences(self, one: int, other: int) -> Ints:
        """Returns some values of x for which two functions of one root differ."""
        x: Ints = np.union1d(self.thresholds(one), self.thresholds(other))
        return np.asarray(x[self.values(one, x) != self.values(other, x)])

    def divide(self, rows: Ints, divisors: Ints) -> Ints:
        """Returns the functions without b, with their factor a divided by divisors of it."""
        first, last, g, a, b, low, high = self._table.rows(rows)
        a, low, high = (x // divisors for x in (a, low - b, high - b))
        return self._number_several(first, last, g, a, np.zeros_like(b), low, high)

    # ---- composition -----------------------------------------------------------------------------

    def tabulate(self, rows: Ints, function: Callable[[Ints, Ints], Ints]) -> Ints:
        """Returns finite functions composed with any `function` of (results, their rows). Raises Undecidable."""
        out = np.empty(len(rows), np.int64)
        batch = np.cumsum(self._counts(rows)) // _BATCH
        for at in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(batch)) + 1):
            part = rows[at]
            p = self.pieces(part)
            domains = self.column("first")[part], self.column("last")[part]
            out[at] = self.from_pieces(Pieces(p.row, p.start, function(p.value, at[p.row])), domains)
        return out

    def together(self, one: Ints, other: Ints, function: Callable[[Ints, Ints, Ints], Ints]) -> Ints:
        """Returns function(one(x), other(x), rows) for pairs of finite functions of one root."""
        rows, starts, left, right = [], [], [], []
        domains = np.zeros((2, len(one)), np.int64)
        for k, pair in enumerate(zip(one.tolist(), other.tolist())):
            a, b = (self.pieces(np.array([f])) for f in pair)
            vary = [f for f in pair if self.column("a")[f]]
            # x lies in both domains
            first = domains[0, k] = max((int(self.column("first")[f]) for f in vary), default=0)
            last = domains[1, k] = min((int(self.column("last")[f]) for f in vary), default=0)
            for p, f in ((a, pair[0]), (b, pair[1])):
                if f not in vary:
                    p.start[0] = first
            start = np.union1d(np.maximum(np.union1d(a.start, b.start), first), first)
            start = start[start <= last]
            starts.append(start)
            left.append(a.value[np.searchsorted(a.start, start, "right") - 1])
            right.append(b.value[np.searchsorted(b.start, start, "right") - 1])
            rows.append(np.full(len(start), k))
        row = np.concatenate(rows)
        value = function(np.concatenate(left), np.concatenate(right), row)
        return self.from_pieces(Pieces(row, np.concatenate(starts), value), (domains[0], domains[1]))

    def compose(self, rows: Ints, kind: str, parameters: Sequence[Ints]) -> Ints:
        """Returns functions composed with a step of one kind each. Raises Undecidable beyond int64."""
        changed = np.ones(len(rows), bool)
        if kind == "clip":
            changed = (self.column("low")[rows] < parameters[0]) | (self.column("high")[rows] > parameters[1])
        elif kind == "affine":
            changed = (parameters[0] != 1) | (parameters[1] != 0)
        out = rows.copy()
        if kind == "affine":
            out[changed] = self._lines(rows[changed], *(p[changed] for p in parameters))
        elif changed.any():
            steps = [(kind, *row) for row in zip(*(p[changed].tolist() for p in parameters))]
            out[changed] = self._behind(rows[changed], steps)
        return out

    def _lines(self, rows: Ints, factor: Ints, summand: Ints) -> Ints:
        """Returns factor * f + summand, which only changes a and b. Raises Undecidable."""
        first, last, g, a, b, low, high = self._table.rows(rows)
        if not is_safe(("affine", factor, summand), np.minimum(b, low), np.maximum(b, high)):
            raise Undecidable(_NO_ROOM)
        ends = np.sort(np.stack([low, high]) * factor + summand, 0)
        a, b = a * factor, b * factor + summand
        return self._number_several(first, last, g, a, b, *ends)

    def _behind(self, rows: Ints, steps: Sequence[Step]) -> Ints:
        """Returns functions composed with one step each, which is not affine and has an effect.

        If the new ones would have more than `_MOST_AT_ONCE` pieces, affine functions become chains.
        """
        finite = self.is_finite(rows, _FEW)
        keys = [(f, *step) for f, step in zip(rows.tolist(), steps)]
        known = [self._known.get(key) for key in keys]
        extended = [k for k, number in enumerate(known) if number is None and not finite[k]]
        new = np.array([k for k, number in enumerate(known) if number is None and finite[k]], np.int64)
        if self._counts(rows[new]).sum() > _MOST_AT_ONCE:
            affine = self.column("g")[rows[new]] == IDENTITY
            extended, new = [*extended, *new[affine].tolist()], new[~affine]
        for k in extended:
            known[k] = self._known[keys[k]] = self._extend(keys[k][0], steps[k])
        if len(new):
            for k, number in zip(new.tolist(), self._run(rows[new], [steps[k] for k in new.tolist()]).tolist()):
                known[k] = self._known[keys[k]] = number
        out = np.array(known, np.int64)
        self._into_pieces(out)
        return out

    def _run(self, rows: Ints, steps: Sequence[Step]) -> Ints:
        """Returns finite functions composed with steps of one kind. Raises Undecidable."""
        kinds = {step[0] for step in steps}
        assert len(kinds) == 1
        parameters = np.array([step[1:] for step in steps], np.int64).T
        if not is_safe((*kinds, *parameters), self.column("low")[rows], self.column("high")[rows]):
            raise Undecidable(_NO_ROOM)
        return self.tabulate(rows, lambda x, row: run((*kinds, *(p[row] for p in parameters)), x))

    def _extend(self, f: int, step: Step) -> int:
        """Returns a function on a large domain composed with a step that is not affine. Raises Undecidable."""
        first, last, g, a, b, low, high = self._table.row(f)
        steps: tuple[Step, ...] = () if g == IDENTITY else self._forms[g]
        if not is_safe(step, low, high):
            raise Undecidable(_NO_ROOM)
        ends = sorted((int(run(step, low)), int(run(step, high))))
        limits = ends[0], ends[1]
        kind, *p = step
        if limits[0] == limits[1]:
            return self.constant(limits[0])
        if kind == "scale":
            inner = sorted(((low - b) // a, (high - b) // a))
            folded = ("scale", a * p[0], b * p[0] + p[1], p[2])
            if not is_safe(folded, inner[0], inner[1]):
                raise Undecidable(_NO_ROOM)
            behind, a, b = normalize_scale(*folded[1:])
            if behind:
                steps = self._before_clip(steps, behind, first, last)
        elif kind == "clip" and abs(a) == 1:
            inner = sorted(((limits[0] - b) * a, (limits[1] - b) * a))
            if steps and steps[-1][0] == "clip":
                steps = steps[:-1]
            steps = (*steps, ("clip", *inner))
        else:
            line = (("affine", a, b),) if (a, b) != (1, 0) else ()
            steps, a, b = (*steps, *line, ("clip", *limits) if kind == "clip" else step), 1, 0
        return self._number(first, last, self._chain(steps), a, b, limits)

    def _before_clip(self, steps: tuple[Step, ...], new: Step, first: int, last: int) -> tuple[Step, ...]:
        """Returns a chain with a step before its final clip, or at its end if int64 overflows."""
        *others, clip = steps or (("affine", 1, 0),)
        if clip[0] != "clip":
            return *steps, new
        ends = sorted(int(run_all(others, x)) for x in (first, last))
        if not is_safe(new, ends[0], ends[1]):
            return *steps, new
        reached, limits = (sorted(int(run(new, x)) for x in pair) for pair in (ends, clip[1:]))
        clips = reached[0] < limits[0] or reached[1] > limits[1]
        return *others, new, *([("clip", *limits)] if clips else [])

    def _chain(self, steps: tuple[Step, ...]) -> int:
        if not steps:
            return IDENTITY
        if (known := self._form_numbers.get(steps)) is None:
            known = self._form_numbers[steps] = self._new_form(steps, 0)
        return known

    def _into_pieces(self, rows: Ints) -> None:
        """Replaces chains of few results by pieces, in place."""
        g, low, high = (self.column(name)[rows] for name in ("g", "low", "high"))
        groups: dict[tuple[str, ...], list[int]] = {}
        for k in np.flatnonzero((g >= 0) & (high - low < _FEW) & ~self._are_pieces(g)).tolist():
            key = ("in pieces", int(rows[k]))
            if (known := self._known.get(key)) is not None:
                rows[k] = known
            else:
                groups.setdefault(tuple(s[0] for s in self._forms[g[k]]), []).append(k)
        for members in groups.values():
            old = rows[members]
            rows[members] = self._invert(old)
            self._known.update((("in pieces", int(f)), int(n)) for f, n in zip(old, rows[members]))

    def recognize(self, rows: Ints) -> Ints:
        """Returns for each chain the first one that occurred with the same results.

        One division may be written in different steps, so thresholds are compared.
        Chains of too many results are left as they are.
        """
        out = rows.copy()
        for k, f in enumerate(rows.tolist()):
            g, low, high = (int(self.column(name)[f]) for name in ("g", "low", "high"))
            if g == IDENTITY or self._is_pieces(g) or high - low > _RECOGNIZED:
                continue
            key = ("recognized", f)
            if key not in self._known:
                p, domain = self._thresholds(rows[k : k + 1])
                results = digest(*domain, p.start, p.value)
                self._known[key] = self._by_results.setdefault(results, f)
            out[k] = self._known[key]
        return out

    def _invert(self, rows: Ints) -> Ints:
        """Returns chains, whose steps are of the same kinds, as functions in pieces."""
        return self.from_pieces(*self._thresholds(rows))

    def _thresholds(self, rows: Ints) -> tuple[Pieces, tuple[Ints, Ints]]:
        """Returns the pieces and domains of chains whose steps are of the same kinds.

        Each piece begins at the threshold of its result: the first x that reaches it.
        """
        first, last, g, a, b, low, high = self._table.rows(rows)
        chains = [(*self._forms[k], ("affine", m, n)) for k, m, n in zip(g.tolist(), a.tolist(), b.tolist())]
        turned = np.array([is_decreasing(c) for c in chains])
        sizes = high - low
        row = np.repeat(np.arange(len(rows)), sizes)
        place = np.arange(len(row)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        wanted = low[row] + 1 + place
        steps = [
            (chains[0][i][0], *np.array([c[i][1:] for c in chains], np.int64).T[:, row]) for i in range(len(chains[0]))
        ]
        sign = np.where(turned, -1, 1)[row]
        left = first_reaching(steps, wanted)
        assert (run_all(steps, left * sign) >= wanted).all() and (run_all(steps, (left - 1) * sign) < wanted).all()
        start = np.where(turned[row], 1 - left, left)
        value = np.where(turned[row], wanted - 1, wanted)
        everywhere = np.arange(len(rows))
        row, start = np.concatenate([everywhere, row]), np.concatenate([first, start])
        value = np.concatenate([np.where(turned, high, low), value])
        order = np.lexsort((np.where(turned[row], -value, value), start, row))
        row, start, value = row[order], start[order], value[order]
        is_last = np.concatenate([(row[1:] != row[:-1]) | (start[1:] != start[:-1]), [True]])
        inside = is_last & (start <= last[row])
        return Pieces(row[inside], start[inside], value[inside]), (first, last)


def digest(*numbers: Ints) -> bytes:
    """Returns a hash of several rows of numbers. The rows have one length, or lengths that the first rows determine."""
    out = hashlib.blake2b(digest_size=16)
    for x in numbers:
        out.update(np.ascontiguousarray(x).data)
    return out.digest()
