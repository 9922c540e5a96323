"""Decodes the compressed stream of weights that all families read, and the records of scales.

The format was learnt from Vela's codec (`ethosu/mlw_codec`, Apache-2.0).
No code is shared with it: its own decoder could undo an error of its encoder.
Bits are read from the lowest of each byte on.
A stream is made of slices, each with a header:

    ZDIV 3      divisor of runs of zeros as a power of two, 0 to 3;
                6: zeros are weights like others;
                7: no slice, but padding up to the next byte, after which a palette is due
    SLICELEN 15 number of weights that are not in runs of zeros, less one
    WDIV 3      divisor of weights as a power of two, 0 to 5; 7: not divided
    WTRUNC 1    whether quotients end at two
    NEWPAL 1    whether a palette follows: DIROFS 5, PALSIZE 5 (less one, 0: none),
                PALBITS 3 (less two), entries

Chunks follow, each with up to 12 quotients of weights in unary and as many of runs of zeros.
The remainders of the chunk before come last.
A weight is an index into the palette, whose entries are codes `2 * magnitude + sign`.
An index beyond the palette counts codes on from DIROFS.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from eqsat.device.core.arithmetic import Scales
from eqsat.device.core.errors import DeviceFault
from eqsat.tensor.types import Array

#: Values of ZDIV.
_NO_RUNS = 6
_PADDING = 7
#: Values of WDIV.
_RESERVED = 6
_NOT_DIVIDED = 7
#: Bits of a chunk's unary code, and so its most quotients.
_CHUNK = 12
#: Quotients in a chunk of weights that are not divided and wider than 5 bits.
_WIDE_CHUNK = 8
#: Bits of a chunk of runs of zeros with the largest divisor.
_LONG_CHUNK = 8
#: Number of weights by which runs of zeros may lag behind.
_AHEAD = 8
#: Number of indices of weights, which have 9 bits.
_INDICES = 512
#: Bytes of a record of a bias and a scale.
_RECORD = 10
#: The number of bits that are set, for every word of a chunk.
_ONES = tuple(n.bit_count() for n in range(1 << _CHUNK))


class _Bits:
    """The bits of a stream and the position of the next one."""

    def __init__(self, data: bytes) -> None:
        self.end, self.at = 8 * len(data), 0
        padded = np.frombuffer(data + bytes(4), np.uint8).astype(np.int64)
        self._windows = padded[:-3] | padded[1:-2] << 8 | padded[2:-1] << 16 | padded[3:] << 24
        self._listed: list[int] = self._windows.tolist()

    def take(self, count: int) -> int:
        """Returns the next `count` bits, at most 25. Raises DeviceFault."""
        at = self.at
        self.skip(count)
        return self._listed[at >> 3] >> (at & 7) & (1 << count) - 1

    def skip(self, count: int) -> None:
        """Moves forward by `count` bits. Raises DeviceFault."""
        self.at += count
        if self.at > self.end:
            raise DeviceFault(f"a stream of weights goes on behind its {self.end // 8} bytes")

    def many(self, starts: Array, count: int) -> Array:
        """Returns `count` bits at each position, which `skip` has passed."""
        return self._windows[starts >> 3] >> (starts & 7) & (1 << count) - 1


@dataclass(slots=True)
class _Palette:
    """The palette of a slice.

    entries: codes of the first indices.
    offset: code of the first index beyond them.
    bits: of an entry.
    """

    entries: Array
    offset: int
    bits: int

    @property
    def index_bits(self) -> int:
        """Bits of an index that is not divided."""
        return (len(self.entries) - 1).bit_length() if len(self.entries) else self.bits

    def weights(self, places: Array) -> Array:
        """Returns the weights of indices. Raises DeviceFault."""
        if len(places) and int(places.max()) >= _INDICES:
            raise DeviceFault("a stream of weights has one of more than 9 bits")
        size = len(self.entries)
        codes = places - size + self.offset
        if size:
            codes = np.where(places < size, self.entries[np.minimum(places, size - 1)], codes)
        return np.where(codes & 1, -(codes >> 1), codes >> 1)


@dataclass(slots=True)
class _Numbers:
    """The numbers of one kind in a slice.

    Their quotients are in unary; `_starts` are the positions of each chunk's remainders.

    wanted: number of them in the slice.
    bits: of a remainder.
    seen: quotients so far.
    ready: quotients of the chunk before, whose remainders come next.
    """

    wanted: int
    bits: int
    seen: int = 0
    ready: int = 0
    _read: int = 0
    _starts: list[int] = field(default_factory=list)
    _counts: list[int] = field(default_factory=list)

    def remainders(self, bits: _Bits, next_ready: int) -> None:
        """Skips the remainders of the chunk before. Raises DeviceFault."""
        count = min(self.ready, self.wanted - self._read)
        if count:
            self._starts.append(bits.at)
            self._counts.append(count)
            self._read += count
            bits.skip(count * self.bits)
        self.ready = next_ready
        self.seen += next_ready

    def values(self, steps: Array, ends: Array, bits: _Bits) -> Array:
        """Returns the numbers, int64 [wanted].

        steps: what each position of the unary code adds to a quotient.
        ends: whether a quotient ends at that position.
        """
        totals = np.cumsum(steps)[ends][: self.wanted]
        quotients = np.diff(totals, prepend=0)
        counts = np.array(self._counts, np.int64)
        within = np.arange(self.wanted) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(np.array(self._starts, np.int64), counts) + within * self.bits
        return (quotients << self.bits) + bits.many(starts, self.bits)


@lru_cache(512)
def scales(streams: tuple[bytes, ...], depth: int, bias: int, end: int) -> Scales:
    """Returns the bias, multiplier and shift of each channel, from records of 10 bytes.

    streams: of cores, among which channels take turns.
    bias: number of bytes of the signed bias, which comes first.
    end: byte at which the multiplier ends and the shift of 6 bits begins.
    Raises DeviceFault.
    """
    found = np.zeros((depth, _RECORD), np.int64)
    for core, stream in enumerate(streams):
        mine = found[core :: len(streams)]
        if len(stream) < mine.size:
            raise DeviceFault(f"{len(stream)} bytes of biases and scales for {len(mine)} channels")
        mine[...] = np.frombuffer(stream, np.uint8, mine.size).reshape(mine.shape)
    added, multiplier = (r @ (1 << 8 * np.arange(r.shape[1])) for r in (found[:, :bias], found[:, bias:end]))
    return Scales(np.where(added >> 8 * bias - 1, added - (1 << 8 * bias), added), multiplier, found[:, end] & 63)


def fill(out: Array, places: Array, values: Array) -> None:
    """Writes the values of a stream to their places in the flat weights.

    places: -1 for a value that is only padding.
    Raises DeviceFault if there are fewer values than places.
    """
    if len(values) < len(places):
        raise DeviceFault(f"{len(values)} weights in a stream that should have {len(places)}")
    inside = places >= 0
    out.reshape(-1)[places[inside]] = values[: len(places)][inside]


@lru_cache(512)
def decode(stream: bytes) -> Array:
    """Returns all weights of a stream in its order, int16. Raises DeviceFault if the stream is damaged."""
    bits, parts = _Bits(stream), [np.zeros(0, np.int64)]
    palette: _Palette | None = None
    runs_before = False
    while True:
        divisor = bits.take(3) if bits.at < bits.end else _PADDING
        if divisor == _PADDING:
            bits.skip(-bits.at % 8)
            palette = None
            if bits.at == bits.end:
                return np.concatenate(parts).astype(np.int16)
            continue
        count, quotient_bits, ends_at_two, new = bits.take(15) + 1, bits.take(3), bits.take(1), bits.take(1)
        if new:
            palette = _palette(bits)
        runs = divisor != _NO_RUNS
        if palette is None or (not new and runs != runs_before):
            raise DeviceFault("a slice of a stream of weights has no palette")
        if divisor in (4, 5) or quotient_bits == _RESERVED:
            raise DeviceFault(f"a slice of a stream of weights has the divisors {divisor} and {quotient_bits}")
        runs_before = runs
        plain = quotient_bits == _NOT_DIVIDED
        weights = _Numbers(count, palette.index_bits if plain else quotient_bits)
        zeros = _Numbers(count + new if runs else 0, divisor)
        places, between = _slice(bits, weights, zeros, plain, bool(ends_at_two))
        parts.append(_spread_apart(palette.weights(places), between, bool(new)))


def _palette(bits: _Bits) -> _Palette:
    offset, size, width = bits.take(5), bits.take(5), bits.take(3) + 2
    entries = [bits.take(width) for _ in range(size + 1 if size else 0)]
    return _Palette(np.array(entries, np.int64), offset, width)


def _slice(bits: _Bits, weights: _Numbers, zeros: _Numbers, plain: bool, ends_at_two: bool) -> tuple[Array, Array]:
    """Returns (indices into the palette, lengths of runs of zeros), which alternate so that neither is far ahead."""
    room = _WIDE_CHUNK if plain and weights.bits > 5 else _CHUNK
    length = _CHUNK if zeros.bits < 3 else _LONG_CHUNK
    firsts, seconds, unaries = [], [], []
    while True:
        ahead = weights.seen - zeros.seen if zeros.wanted else 0
        with_weights = weights.seen < weights.wanted and ahead < _AHEAD
        with_zeros = zeros.seen < zeros.wanted and ahead >= 0
        first = bits.take(_CHUNK) if with_weights and not plain else 0
        unary = bits.take(length) if with_zeros else 0
        second = bits.take(_ONES[first]) if first else 0
        if with_weights:
            firsts.append(first)
            seconds.append(second)
        if with_zeros:
            unaries.append(unary)
        weights.remainders(bits, (room if ends_at_two else room - _ONES[second]) if with_weights else 0)
        zeros.remainders(bits, length - _ONES[unary] if with_zeros else 0)
        if not (with_weights or with_zeros):
            break
    codes = _codes(np.array(firsts, np.int64), np.array(seconds, np.int64), room)
    marks = (np.array(unaries, np.int64)[:, None] >> np.arange(length) & 1).reshape(-1)
    places = weights.values(codes, (codes < 2) | ends_at_two, bits)
    return places, zeros.values(marks, marks == 0, bits)


def _codes(firsts: Array, seconds: Array, room: int) -> Array:
    """Returns what each position adds to a quotient: 0 if its first bit is not set, else 1 plus its second bit."""
    ones = firsts[:, None] >> np.arange(room) & 1
    which = np.cumsum(ones, axis=1) - 1
    return (ones + (ones & seconds[:, None] >> np.maximum(which, 0))).reshape(-1)


def _spread_apart(weights: Array, runs: Array, zeros_first: bool) -> Array:
    """Returns weights with a run of zeros after each, and before the first if the palette is new."""
    if not len(runs):
        return weights
    before = np.cumsum(runs)[: len(weights)] - (0 if zeros_first else runs[: len(weights)])
    out = np.zeros(len(weights) + int(runs.sum()), np.int64)
    out[np.arange(len(weights)) + before] = weights
    return out


# The order in which a stream has the weights of a convolution, for every family:
# blocks of output channels are outermost, then blocks of input channels, then pieces of the kernel.
# In each of these, input channels of a micro block are outermost, then output channels of a micro block, then the
# kernel's elements; innermost are a few input channels of each output channel.

#: Elements of a piece of a kernel along an axis, before dilation.
_PIECE = 8


@dataclass(frozen=True, slots=True)
class Order:
    """The order of weights of [out, height, width, in] in a stream.

    in: 1 for a depthwise convolution.
    block, micro: output channels of a block and of a micro block.
    deep, shallow: input channels of a block and of a micro block.
    step: adjacent input channels.
    rounded: the multiple to which the elements of a piece are padded with zeros.
    gap: elements of zeros after every `rounded` ones.
    strides: elements are ordered by their position within a stride first.
    cores: cores that share the micro blocks.
    run: consecutive output channels of a core, before those of the next one; None: all of a micro block.
    alternating: whether blocks of input channels, and rows of elements, go forward and backward in turns.
    Then columns of pieces are outside rows of them.
    """

    shape: tuple[int, int, int, int]
    dilation: tuple[int, int]
    block: int
    micro: int
    deep: int
    shallow: int
    step: int
    rounded: int
    gap: int = 0
    strides: tuple[int, int] = (1, 1)
    cores: int = 1
    run: int | None = None
    alternating: bool = False

    def pieces(self) -> Iterator[tuple[Array, Array]]:
        """Yields (y, x) of the elements of each piece of the kernel, -1 for padding."""
        height, width = (_PIECE // d for d in self.dilation)
        corners = itertools.product(range(0, self.shape[1], height), range(0, self.shape[2], width))
        for y, x in sorted(corners, key=lambda c: c[::-1]) if self.alternating else corners:
            size = min(self.shape[1] - y, height), min(self.shape[2] - x, width)
            found = np.array(list(self._elements(size))).T + [[y], [x]]
            found = np.pad(found, ((0, 0), (0, -found.shape[1] % self.rounded)), constant_values=-1)
            groups = found.reshape(2, -1, self.rounded)
            rows, columns = np.pad(groups, ((0, 0), (0, 0), (0, self.gap)), constant_values=-1).reshape(2, -1)
            yield rows, columns

    def _elements(self, size: tuple[int, int]) -> Iterator[tuple[int, int]]:
        """Yields (y, x) of the elements of a piece."""
        for y, x in itertools.product(range(self.strides[0]), range(self.strides[1])):
            for n, row in enumerate(range(y, size[0], self.strides[0])):
                columns = range(x, size[1], self.strides[1])
                yield from ((row, column) for column in (columns[::-1] if self.alternating and n % 2 else columns))

    def piece(self, core: int, outer: Array, inner: Array, y: Array, x: Array) -> Array:
        """Returns the places of the weights of one piece.

        outer, inner: the first output and input channel of each micro block.
        """
        out, height, width, inputs = self.shape
        run = self.run or self.micro
        runs = np.arange(core * run, self.micro, run * self.cores)
        steps = np.arange(0, self.shallow, self.step)
        a, z, e, b, r, c, d = np.ix_(inner, outer, np.arange(len(y)), steps, runs, np.arange(run), np.arange(self.step))
        ic, oc, row = a + b + d, z + r + c, y[e]
        places = ((oc * height + row) * width + x[e]) * inputs + ic
        return np.where((ic < inputs) & (oc < out) & (row >= 0), places, -1).astype(np.int32).reshape(-1)


@lru_cache(64)
def places(order: Order, core: int = 0) -> Array:
    """Returns the position in the flat weights of every weight of a core's stream, int32; -1 for padding."""
    out, inputs = order.shape[0], order.shape[3]
    deep, pieces = list(range(0, inputs, order.deep)), list(order.pieces())
    parts = []
    for k, o in enumerate(range(0, out, order.block)):
        outer = np.arange(o, min(o + order.block, out), order.micro)
        for i in deep[:: -1 if order.alternating and k % 2 else 1]:
            inner = np.arange(i, min(i + order.deep, inputs), order.shallow)
            parts += [order.piece(core, outer, inner, y, x) for y, x in pieces]
    return np.concatenate(parts)
