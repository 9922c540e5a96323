"""Arithmetic modulo random primes, and keyed hashes into the prime fields.

A value is evaluated at one random point in several prime fields at once, its lanes.
Two different polynomials agree at the point in all lanes with a small probability, which `Field.error_bound` states by
the Schwartz-Zippel lemma. Sources: DeMillo and Lipton 1978, Zippel 1979, Schwartz 1980.
The primes are drawn too, so that one hardly divides a given coefficient.
Functions that are not polynomials are function symbols, which are keyed hashes.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

#: Elements of the fields: shape [LANES, elements].
Lanes = NDArray[np.int64]
#: A linear map of a lane, computed in float64, and the largest sum of its absolute integer weights for one result.
Term = tuple[Callable[[NDArray[np.float64]], NDArray[np.float64]], int]
Words = NDArray[np.uint64]

LANES = 4
#: Primes are drawn between these limits.
_PRIMES = ((1 << 31) - (1 << 29), 1 << 31)
#: Bits of the numbers that `words` returns.
WORD_BITS = 63
#: Number of primes between the limits, counted with a sieve.
_PRIME_COUNT = 25_145_151
#: Largest sum of absolute weights for which sums over a lane are exact in float64.
#: Lane values are within 2^30 of zero: 2^30 * 2^22 < 2^53.
EXACT_WEIGHTS = 1 << 22
#: Bits of the parts that products of matrices are split into.
_LIMB_BITS = 11
#: Terms that are summed before a reduction, which is exact in float64: 2^30 * 2^11 * 2^11 < 2^53.
_LIMB_TERMS = 1 << 11
#: Bases that make the Miller-Rabin test exact below 2^32. Source: Jaeschke 1993.
_WITNESSES = (2, 7, 61)
#: Constants of splitmix64. Source: Steele, Lea and Flood 2014.
_GAMMA, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


class Field:
    """The prime fields and hash keys that one seed gives."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        #: Number of hashes computed so far.
        self.hashes = 0
        generator = random.Random(seed)
        self.primes = _draw_primes(generator)
        self._keys = [np.uint64(generator.getrandbits(64)) for _ in range(4)]
        self._column = np.array(self.primes, np.int64)[:, None]

    # ---- arithmetic ------------------------------------------------------------------------------

    def reduce(self, values: NDArray[np.int64]) -> Lanes:
        """Returns lanes [LANES, ...] of integers of shape [1, ...] or [LANES, ...]."""
        out: Lanes = values % self._column.reshape(-1, *[1] * (values.ndim - 1))
        return out

    def constants(self, values: Sequence[int] | NDArray[np.int64]) -> Lanes:
        """Returns lanes [LANES, values] of integers of any size."""
        if isinstance(values, np.ndarray):
            return self.reduce(values[None])
        return np.array([[v % p for v in values] for p in self.primes], np.int64).reshape(LANES, -1)

    def total(self, x: Lanes, terms: Sequence[Term]) -> Lanes:
        """Returns the sum of linear maps of x, modulo each prime."""
        out = []
        for lane, p in zip(x, self.primes, strict=True):
            centred, sums, load = _centre(lane, p), np.zeros(()), 0
            for linear, weight in terms:
                if load + weight > EXACT_WEIGHTS:
                    sums, load = np.mod(sums, p), 2
                sums, load = sums + linear(centred), load + weight
            out.append(sums.astype(np.int64) % p)
        return np.stack(out)

    def matmul(self, a: Lanes, b: Lanes) -> Lanes:
        """Returns the products of matrices a [LANES, batch, rows, terms] and b [LANES, batch, terms, columns]."""
        out = np.zeros((*a.shape[:-1], b.shape[-1]), np.int64)
        for lane, p in enumerate(self.primes):
            for k in range(0, a.shape[-1], _LIMB_TERMS):
                left, right = _centre(a[lane, ..., k : k + _LIMB_TERMS], p), b[lane, :, k : k + _LIMB_TERMS]
                total = np.zeros(out.shape[1:], np.int64)
                for limb in (2, 1, 0):
                    part = (right >> (limb * _LIMB_BITS)) & ((1 << _LIMB_BITS) - 1)
                    total = ((total << _LIMB_BITS) + (left @ part.astype(np.float64)).astype(np.int64)) % p
                out[lane] = (out[lane] + total) % p
        return out

    # ---- hashes ----------------------------------------------------------------------------------

    def keys(self, symbols: NDArray[np.int64]) -> tuple[Words, Words]:
        """Returns the two key words of each function symbol, given by number."""
        with np.errstate(over="ignore"):
            first = _mix(symbols.astype(np.uint64) ^ self._keys[0])
            return first, _mix(first + self._keys[1])

    def hash_keys(self, keys: tuple[Words, Words], *operands: Lanes) -> Lanes:
        """Returns lanes [LANES, elements] of function symbols applied to operands of that shape."""
        with np.errstate(over="ignore"):
            s, t = keys
            self.hashes += operands[0].shape[1]
            for operand in operands:
                first, second = words(operand)
                s = _mix(s ^ first)
                t = _mix(t ^ second ^ (s * np.uint64(_GAMMA)))
                s = s ^ ((t << np.uint64(23)) | (t >> np.uint64(41)))
            out = np.empty((LANES, len(np.atleast_1d(s))), np.int64)
            for lane, p in enumerate(self.primes):
                z = _mix(t * np.uint64(2 * lane + 1) + s + self._keys[2 + lane % 2])
                out[lane] = (z >> np.uint64(11)).astype(np.float64) * (p * 2.0**-53)
        return out

    def apply(self, symbol: int, *operands: Lanes) -> Lanes:
        """Returns lanes of one function symbol, given by number, applied to operands."""
        return self.hash_keys(self.keys(np.full(operands[0].shape[1], symbol)), *operands)

    def digest(self, symbol: int, values: Lanes) -> Lanes:
        """Returns one hash per row of its terms in order: [LANES, terms, rows] -> [LANES, rows]."""
        terms, rows = values.shape[1:]
        state = self.apply(symbol, self.constants([terms]).repeat(rows, 1))
        keys = self.keys(np.arange(terms))
        total = np.zeros((LANES, rows), np.int64)
        for k in range(terms):  # a sum of hashes, each of a position and its value
            place = tuple(np.broadcast_to(key[k], rows) for key in keys)
            total += self.hash_keys((place[0] ^ words(state)[0], place[1]), values[:, k])
        return self.apply(symbol, self.reduce(total), state)

    # ---- what it is worth ------------------------------------------------------------------------

    def fingerprint(self, values: Lanes) -> tuple[int, int]:
        """Returns the number of elements and the sum of their hashes modulo 2^64."""
        first, second = words(values)
        with np.errstate(over="ignore"):
            return len(first), int(_mix(_mix(first ^ self._keys[2]) ^ second).sum(dtype=np.uint64))

    def error_bound(self, degree: int, elements: int) -> float:
        """Returns log2 of a bound on the probability that different elements have equal lanes.

        degree: of the elements as polynomials in hashes and random inputs. elements: their number.
        A lane fails with probability at most degree / p (Schwartz-Zippel lemma).
        One lane may be lost besides: where its prime divides a difference of coefficients.
        At most one prime does, as these differences are below 2^60 (no graph exceeds 48 bits).
        """
        lane = math.log2(degree) - math.log2(min(self.primes)) + 2.0**-20
        lost = math.log2(LANES) - math.log2(_PRIME_COUNT) + (LANES - 1) * lane
        pairs = 2 * math.log2(max(elements, 2)) - 1
        return pairs + float(np.logaddexp2(LANES * lane, lost))


def words(values: Lanes) -> tuple[Words, Words]:
    """Returns four lanes of 31 bits packed into two 64-bit words per element."""
    v = values.astype(np.uint64)
    return v[0] | (v[1] << np.uint64(32)), v[2] | (v[3] << np.uint64(32))


def pairs(values: Lanes) -> Iterator[tuple[int, int]]:
    """Returns the two words of each element."""
    return zip(*(w.tolist() for w in words(values)))


def _centre(lane: NDArray[np.int64], p: int) -> NDArray[np.float64]:
    out = lane.astype(np.float64)
    out[lane > p // 2] -= p
    return out


def _mix(z: Words) -> Words:
    """Returns 64-bit words permuted by splitmix64."""
    z = z + np.uint64(_GAMMA)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(_MIX_1)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(_MIX_2)
    return z ^ (z >> np.uint64(31))


def _draw_primes(generator: random.Random) -> list[int]:
    out: list[int] = []
    while len(out) < LANES:
        n = generator.randrange(_PRIMES[0] + 1, _PRIMES[1], 2)
        if n not in out and _is_prime(n):
            out.append(n)
    return out


def _is_prime(n: int) -> bool:
    """Whether n is prime by the Miller-Rabin test, exact for odd numbers between 61 and 2^32."""
    odd, twos = n - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in _WITNESSES:
        x = pow(base, odd, n)
        if x in (1, n - 1):
            continue
        if not any((x := x * x % n) == n - 1 for _ in range(twos - 1)):
            return False
    return True
