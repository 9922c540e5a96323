"""A TensorGraph under construction with its random numbers.

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

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Array, Attrs

_T = TypeVar("_T")

#: Shift with which a RESCALE by a multiplier of 2**30 has a scale of 1.
_ONE = 30


class Unfit(Exception):
    """The block that was drawn cannot follow the value that was drawn."""


class Builder:
    """Draws and adds operators.

    values: the nodes that later operators may read.
    largest: elements of a tensor, at most. without: operators that are not added.
    """

    def __init__(self, rng: np.random.Generator, largest: int, without: Collection[str] = ()):
        self.rng, self.g, self.largest, self.without = rng, TensorGraph(), largest, without
        self.values: list[int] = []

    # -- drawing

    def between(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high, endpoint=True))

    def of(self, *options: _T) -> _T:
        return options[self.between(0, len(options) - 1)]

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def array(self, shape: Sequence[int], dtype: str, low: int | None = None, high: int | None = None) -> Array:
        limits = DType.of(dtype).limits
        return self.rng.integers(
            limits[0] if low is None else low, limits[1] if high is None else high, shape, endpoint=True
        ).astype(DType.of(dtype).storage)

    def zero(self, dtype: str) -> int:
        """Returns a random zero point, often -128 or 0 for INT8 and always 0 for other dtypes."""
        return self.of(-128, 0, 3, self.between(-128, 127)) if dtype == "INT8" else 0

    # -- looking

    def shape(self, x: int) -> tuple[int, ...]:
        return self.g.nodes[x].shape

    def dtype(self, x: int) -> str:
        return self.g.nodes[x].dtype

    def size(self, x: int) -> int:
        return prod(self.shape(x))

    def want(self, condition: bool) -> None:
        """Raises Unfit unless the condition holds."""
        if not condition:
            raise Unfit

    def want_activation(self, x: int) -> None:
        """Raises Unfit unless x is INT8 or INT16."""
        self.want(DType.of(self.dtype(x)).is_activation)

    def like(self, x: int, other_than: bool = False) -> list[int]:
        """Returns the values of x's shape and dtype, with x itself unless `other_than`."""
        return [
            v
            for v in self.values
            if self.shape(v) == self.shape(x) and self.dtype(v) == self.dtype(x) and not (other_than and v == x)
        ]

    # -- leaves

    def input(self, shape: Sequence[int], dtype: str = "INT8") -> int:
        return self.g.add_input(f"x{len(self.g.inputs)}", tuple(shape), dtype)

    def const(self, shape: Sequence[int], dtype: str = "INT8", low: int | None = None, high: int | None = None) -> int:
        return self.g.add_const(self.array(shape, dtype, low, high), dtype)

    # -- data movement

    def add(self, op: str, *xs: int, **attrs: Any) -> int:
        """Adds an operator. Raises Unfit if it is not wanted, GraphError if it does not fit."""
        self.want(op not in self.without)
        return self.g.add(op, xs, **attrs)

    def make(self, op: str, *xs: int, attrs: Attrs) -> int:
        """Adds an operator with attributes of `makers`. Raises Unfit and GraphError."""
        self.want(op not in self.without)
        return self.g.add_with(op, xs, attrs)

    def transpose(self, x: int, *perms: int) -> int:
        return self.add("transpose", x, perms=tuple(perms))

    def reshape(self, x: int, *shape: int) -> int:
        return self.add("reshape", x, shape=tuple(shape))

    def slice(self, x: int, axis: int, start: int, size: int) -> int:
        """Adds a SLICE along one axis."""
        starts, sizes = [0] * len(self.shape(x)), list(self.shape(x))
        starts[axis], sizes[axis] = start, size
        return self.add("slice", x, start=tuple(starts), size=tuple(sizes))

    def pad(self, x: int, pads: Sequence[int], value: int) -> int:
        grown = prod(d + pads[2 * i] + pads[2 * i + 1] for i, d in enumerate(self.shape(x)))
        self.want(grown <= self.largest)
        return self.make("pad", x, attrs=makers.pad(pads, value))

    def concat(self, axis: int, *xs: int) -> int:
        self.want(sum(map(self.size, xs)) <= self.largest)
        return self.add("concat", *xs, axis=axis)

    # -- pointwise

    def rescale(
        self,
        x: int,
        dtype: str,
        multiplier: Sequence[int] = (1 << _ONE,),
        shift: Sequence[int] = (_ONE,),
        in_zp: int = 0,
        out_zp: int = 0,
        per_channel: bool | None = None,
        **more: Any,
    ) -> int:
        """Adds a RESCALE. Only inputs and outputs of a graph may be unsigned."""
        several = len(multiplier) > 1 if per_channel is None else per_channel
        attrs = makers.rescale(dtype, multiplier, shift, in_zp=in_zp, out_zp=out_zp, per_channel=several, **more)
        return self.make("rescale", x, attrs=attrs)

    def widen(self, x: int, up: int = 0) -> int:
        """Adds a RESCALE of INT8 or INT16 to INT32, times 2**up."""
        dtype = self.dtype(x)
        return self.rescale(x, "INT32", (1 << _ONE,), (_ONE - up,), in_zp=self.zero(dtype))

    def narrow(self, x: int, down: int, dtype: str = "INT8", channels: int = 1) -> int:
        """Adds a RESCALE of a sum to INT8 or INT16.

        The scale is 1/2 to 1 times 2**-down, one per channel if there are several.
        """
        wide = self.dtype(x) == "INT48"
        top = 15 if wide else 31
        multiplier = [self.between(1 << (top - 1), (1 << top) - 1) for _ in range(channels)]
        shift = [min(62, top + down + self.between(0, 1)) for _ in range(channels)]
        return self.rescale(
            x,
            dtype,
            multiplier,
            shift,
            out_zp=self.zero(dtype),
            scale32=not wide,
            per_channel=channels > 1,
            rounding_mode=1 if wide else self.of(1, 1, 3),
        )

    def clamp(self, x: int) -> int:
        """Adds a CLAMP of INT8 or INT16, often a ReLU at a zero point."""
        dtype = self.dtype(x)
        self.want(DType.of(dtype).is_activation)
        low, high = DType.of(dtype).limits
        a = self.of(low, 0, self.between(low, high // 2))
        b = self.of(high, max(a, self.between(0, high)))
        return self.make("clamp", x, attrs=makers.clamp(dtype, a, b))

    def table(self, x: int) -> int:
        """Adds a random, smooth or identity TABLE of INT8, or one of INT16 with its RESCALE."""
        dtype = self.dtype(x)
        self.want(DType.of(dtype).is_activation)
        if dtype == "INT8":
            points = np.arange(-128, 128)
            smooth = np.clip(np.round(127 * np.tanh(points / self.between(10, 90))), -128, 127)
            entries = self.of(smooth, smooth, self.rng.integers(-128, 128, 256), points)
            return self.make("table", x, attrs=makers.table(entries))
        entries = np.round(16000 * np.tanh((np.arange(513) - 256) / self.between(40, 200)))
        return self.rescale(self.make("table", x, attrs=makers.table(entries)), "INT16", (1 << _ONE,), (_ONE + 7,))

    def unary(self, x: int) -> int:
        """Adds a random pointwise operator from INT8 or INT16 to the same dtype."""
        dtype = self.dtype(x)
        self.want(DType.of(dtype).is_activation)
        kind = self.between(0, 5)
        if kind <= 1:
            return self.clamp(x)
        if kind == 2:
            return self.table(x)
        if kind == 3:
            zp = self.zero(dtype)
            multiplier = self.of(1 << 30, self.between(1 << 30, (1 << 31) - 1))
            unsigned = dtype == "INT8" and self.g.nodes[x].op == "input" and self.chance(0.3)
            return self.rescale(
                x,
                dtype,
                (multiplier,),
                (self.of(30, 31),),
                in_zp=zp,
                out_zp=self.of(zp, self.zero(dtype)),
                input_unsigned=unsigned,
            )
        if kind == 4:
            return self.add("negate", x, in_zp=(self.zero(dtype),), out_zp=(self.zero(dtype),))
        return self.add(self.of("bitwise_not", "identity"), x)

    # -- shapes

    def four(self, x: int) -> int:
        """Returns x as [N, H, W, C], with at most one RESHAPE."""
        shape = self.shape(x)
        if len(shape) == 4:
            return x
        if len(shape) < 4:
            return self.reshape(
                x, *self.of((1,) * (4 - len(shape)) + shape, (*shape[:-1], *(1,) * (4 - len(shape)), shape[-1]))
            )
        return self.reshape(x, prod(shape[:-3]), *shape[-3:])

    def three(self, x: int) -> int:
        shape = self.shape(x)
        if len(shape) == 3:
            return x
        if len(shape) < 3:
            return self.reshape(x, *(1,) * (3 - len(shape)), *shape)
        return self.reshape(x, prod(shape[:-2]), *shape[-2:])


# ---- blocks, the pieces of random graphs

#: Adds operators that read a value, and returns the new values.
#: Raises Unfit or GraphError if it cannot.
Grow = Callable[[Builder, int], list[int]]
#: All blocks, and how often each is drawn relative to others, in the order of their definition, on which the graph of a
#: seed depends.
BLOCKS: list[tuple[Grow, float]] = []


def block(weight: float) -> Callable[[Grow], Grow]:
    """Registers a block of this weight."""

    def register(grow: Grow) -> Grow:
        BLOCKS.append((grow, weight))
        return grow

    return register
