"""The order in which a stream has the weights of a convolution, for every family.

Blocks of output channels are outermost, then blocks of input channels, and pieces of the kernel.
In each of these, input channels of a micro block are outermost, then output channels of a micro block, then the
kernel's elements; innermost are a few input channels of each output channel.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from eqsat.tensor.types import Array

#: Elements of a piece of a kernel along an axis, before dilation.
_PIECE = 8


@dataclass(frozen=True, slots=True)
class Order:
    """The order of weights of [out, height, width, in] in a stream.

    in: 1 for a depthwise convolution.
    block, micro: output channels of a block and of a micro block.
    deep, shallow: input channels of a block and of a micro block.
    step: input channels next to each other.
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
