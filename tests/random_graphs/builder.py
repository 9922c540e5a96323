"""A graph under construction with its random numbers.

Operators are those that ExecuTorch's quantization gives, within what TOSA defines.
INT8 values have zero points, and sums are INT32 (INT48 after INT16 products).
A RESCALE is at every change of scale.
Magnitudes are small enough that no operator overflows, which TOSA leaves undefined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any, TypeVar

import numpy as np

from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array, Attrs
from tests.term import Term

_T = TypeVar("_T")


class Unfit(Exception):
    """The block that was drawn cannot follow the value that was drawn."""


class _Limited(TensorGraph):
    """A graph without some operators. Adding one of them raises Unfit."""

    without: Collection[str] = ()

    def add_with(self, op: str, inputs: Sequence[int], attrs: Attrs) -> int:
        if op in self.without:
            raise Unfit
        return super().add_with(op, inputs, attrs)


class Builder:
    """Draws and adds operators.

    values: the nodes that later operators may read.
    largest: elements of a tensor, at most. without: operators that are not added.
    """

    def __init__(self, rng: np.random.Generator, largest: int, without: Collection[str] = ()):
        self.rng, self.g, self.largest = rng, _Limited(), largest
        self.g.without = without
        self.values: list[Term] = []

    # -- drawing

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def of(self, *options: _T) -> _T:
        return options[self.between(0, len(options) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def array(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> Array:
        least, most = DType.of(dtype).limits
        ends = least if low is None else low, most if high is None else high
        return self.rng.integers(*ends, shape, endpoint=True).astype(DType.of(dtype).storage)

    def zero(self, dtype: str) -> int:
        """Returns a random zero point, often -128 or 0 for INT8 and always 0 for other dtypes."""
        return self.of(-128, 0, 3, self.between(-128, 127)) if dtype == "INT8" else 0

    def perm(self, x: Term) -> list[int]:
        """Returns a random order of the axes of x."""
        return [int(p) for p in self.rng.permutation(len(x.shape))]

    def want(self, condition: bool) -> None:
        """Raises Unfit unless the condition holds."""
        if not condition:
            raise Unfit

    # -- leaves

    def input(self, shape: Sequence[int], dtype: str = "INT8") -> Term:
        return Term(self.g, self.g.add_input(f"x{len(self.g.inputs)}", tuple(shape), dtype))

    def const(self, shape: Sequence[int], dtype: str = "INT8", low: int | None = None, high: int | None = None) -> Term:
        return Term(self.g, self.g.add_const(self.array(shape, dtype, low, high), dtype))

    # -- operators that have limits or random attributes

    def pad(self, x: Term, pads: Sequence[int], value: int) -> Term:
        self.want(prod(d + pads[2 * i] + pads[2 * i + 1] for i, d in enumerate(x.shape)) <= self.largest)
        return x.pad(pads, value)

    def concat(self, axis: int, *xs: Term) -> Term:
        self.want(sum(prod(x.shape) for x in xs) <= self.largest)
        return xs[0].concat(*xs[1:], axis=axis)

    def widen(self, x: Term, up: int = 0) -> Term:
        """Adds a RESCALE of INT8 or INT16 to INT32, times 2**up."""
        return x.rescale("INT32", shift=30 - up, in_zp=self.zero(x.dtype))

    def narrow(self, x: Term, down: int, dtype: str = "INT8", channels: int = 1) -> Term:
        """Adds a RESCALE of a sum to INT8 or INT16.

        The scale is 1/2 to 1 times 2**-down, one per channel if there are several.
        """
        wide = x.dtype == "INT48"
        top = 15 if wide else 31
        multiplier = [self.between(1 << (top - 1), (1 << top) - 1) for _ in range(channels)]
        shift = [min(62, top + down + self.between(0, 1)) for _ in range(channels)]
        more = {"out_zp": self.zero(dtype), "scale32": not wide, "per_channel": channels > 1}
        return x.rescale(dtype, multiplier, shift, rounding_mode=1 if wide else self.of(1, 1, 3), **more)

    def clamp(self, x: Term) -> Term:
        """Adds a CLAMP of INT8 or INT16, often a ReLU at a zero point."""
        low, high = DType.of(x.dtype).limits
        a = self.of(low, 0, self.between(low, high // 2))
        return x.clamp(a, self.of(high, max(a, self.between(0, high))))

    def table(self, x: Term) -> Term:
        """Adds a random, smooth or identity TABLE of INT8, or one of INT16 with its RESCALE."""
        if x.dtype == "INT8":
            points = np.arange(-128, 128)
            smooth = np.clip(np.round(127 * np.tanh(points / self.between(10, 90))), -128, 127)
            return x.table(self.of(smooth, smooth, self.rng.integers(-128, 128, 256), points))
        entries = np.round(16000 * np.tanh((np.arange(513) - 256) / self.between(40, 200)))
        return x.table(entries).rescale("INT16", shift=30 + 7)

    def unary(self, x: Term) -> Term:
        """Adds a random pointwise operator from INT8 or INT16 to the same dtype. Raises Unfit for another dtype."""
        dtype = x.dtype
        self.want(DType.of(dtype).is_activation)
        kind = self.between(0, 5)
        if kind <= 1:
            return self.clamp(x)
        if kind == 2:
            return self.table(x)
        if kind == 3:
            zp = self.zero(dtype)
            multiplier = self.of(1 << 30, self.between(1 << 30, (1 << 31) - 1))
            # only inputs and outputs of a graph may be unsigned
            unsigned = dtype == "INT8" and x.g.nodes[x.n].op == "input" and self.chance(0.3)
            shift, out_zp = self.of(30, 31), self.of(zp, self.zero(dtype))
            return x.rescale(dtype, multiplier, shift, in_zp=zp, out_zp=out_zp, input_unsigned=unsigned)
        return x.negate(self.zero(dtype), self.zero(dtype)) if kind == 4 else x(self.of("bitwise_not", "identity"))

    # -- shapes

    def four(self, x: Term) -> Term:
        """Returns x as [N, H, W, C], with at most one RESHAPE."""
        shape = x.shape
        if len(shape) > 4:
            return x.reshape(prod(shape[:-3]), *shape[-3:])
        ones = (1,) * (4 - len(shape))
        return x.reshape(*self.of(ones + shape, (*shape[:-1], *ones, shape[-1]))) if ones else x

    def three(self, x: Term) -> Term:
        shape = (1, 1, *x.shape)
        return x if len(x.shape) == 3 else x.reshape(prod(shape[:-2]), *shape[-2:])


# ---- blocks, the pieces of random graphs

#: Adds operators that read a value, and returns the new values.
#: Raises Unfit or GraphError if it cannot.
Grow = Callable[[Builder, Term], list[Term]]
#: All blocks, and how often each is drawn relative to others, in the order of their definition, on which the graph of a
#: seed depends.
BLOCKS: list[tuple[Grow, float]] = []
#: Dtypes of activations.
BOTH = ("INT8", "INT16")


def block(weight: float, dtypes: Collection[str] = (), rank: Any = 0) -> Callable[[Grow], Grow]:
    """Registers a block of this weight, for values of some dtypes and of one rank, if they are given."""

    def register(grow: Grow) -> Grow:
        def grown(b: Builder, x: Term) -> list[Term]:
            b.want((not dtypes or x.dtype in dtypes) and rank in (0, len(x.shape)))
            return grow(b, x)

        BLOCKS.append((grown, weight))
        return grow

    return register
