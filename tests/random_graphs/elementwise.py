"""Blocks of arithmetic: quantized elementwise operators, comparisons, casts."""

from __future__ import annotations

from collections.abc import Callable

from eqsat.tensor import makers
from tests.random_graphs.builder import Builder, block
from tests.random_graphs.moving import shuffle
from tests.random_graphs.pieces import part


def _partner(b: Builder, x: int) -> int:
    """Returns a second operand for x.

    It is a value of its shape, one that broadcasts, a constant, or x itself.
    """
    shape, rank = b.shape(x), len(b.shape(x))
    broadcast = [
        v
        for v in b.values
        if b.dtype(v) == b.dtype(x)
        and len(b.shape(v)) == rank
        and all(m in (1, n) for m, n in zip(b.shape(v), shape, strict=True))
    ]
    kind = b.between(0, 9)
    if kind <= 3 and broadcast:
        return b.of(*broadcast)
    if kind == 4:
        return x
    if kind == 5:
        return b.unary(x)
    axis = b.between(0, rank - 1)
    row = [n if d == axis else 1 for d, n in enumerate(shape)]
    return b.const(b.of((1,) * rank, (1,) * rank, row, shape), b.dtype(x), -100, 100)


@block(4)
def unary(b: Builder, x: int) -> list[int]:
    return [b.unary(x)]


@block(1)
def chain(b: Builder, x: int) -> list[int]:
    """Adds several pointwise operators of one value, or its product with itself after them.

    A hard-swish is such a product: x * clamp(x + 3).
    """
    b.want_activation(x)
    y = b.unary(b.unary(x))
    return [b.narrow(b.make("mul", b.widen(x), b.widen(y), attrs=makers.mul()), 8, b.dtype(x)) if b.chance(0.5) else y]


@block(4)
def arithmetic(b: Builder, x: int) -> list[int]:
    """Adds RESCALEs to INT32, an operator of two operands, and a RESCALE back."""
    b.want_activation(x)
    op = b.of("add", "add", "sub", "mul", "mul", "maximum", "minimum")
    up = 0 if op == "mul" else b.of(0, 0, 4, 10) if b.dtype(x) == "INT16" else b.of(0, 0, 10, 20)
    operands = [b.widen(x, up), b.widen(_partner(b, x), up)]
    if b.chance(0.5):
        operands.reverse()
    attrs = {"mul": makers.mul(), "maximum": makers.extremum(), "minimum": makers.extremum()}.get(op, ())
    y = b.make(op, *operands, attrs=attrs)
    if op == "mul" and b.dtype(x) == "INT16":
        return [b.narrow(y, 16, "INT16")]
    return [b.narrow(y, 7 if op == "mul" else up, b.dtype(x))]


@block(0.6)
def scaled(b: Builder, x: int) -> list[int]:
    """Adds a product with a constant, and perhaps a sum, which one table could replace."""
    b.want_activation(x)
    rank = len(b.shape(x))
    shape = b.of((1,) * rank, (*(1,) * (rank - 1), b.shape(x)[-1]))
    factor = b.const(shape, "INT32", -100, 100)
    if b.chance(0.3):
        factor = b.add("sub", factor, b.const(shape, "INT32", -9, 9))
    operands = [b.widen(x), factor]
    if b.chance(0.5):
        operands.reverse()
    y = b.make("mul", *operands, attrs=makers.mul())
    if b.chance(0.5):
        y = b.add("add", b.const(shape, "INT32", -5000, 5000), y)
    return [b.narrow(y, 14 if b.dtype(x) == "INT16" else 6, b.dtype(x))]


@block(0.6)
def integers(b: Builder, x: int) -> list[int]:
    """Adds operators of INT32 that are rare in quantized networks."""
    b.want_activation(x)
    wide, ones = b.widen(x), (1,) * len(b.shape(x))
    op = b.of("abs", "clz", "arithmetic_right_shift", "logical_right_shift", "logical_left_shift", "intdiv")
    if op in ("abs", "clz"):
        y = b.add(op, wide)
    elif op == "intdiv":
        y = b.add(op, wide, b.const(ones, "INT32", 1, 9))
    else:
        y = b.add(op, wide, b.const(ones, "INT32", 0, 5), **({"round": b.chance(0.5)} if op[0] == "a" else {}))
    if op == "logical_right_shift":
        y = b.add("bitwise_and", y, b.g.add_const(b.array(ones, "INT32", 255, 255), "INT32"))
    return [b.narrow(y, 1, b.dtype(x))]


@block(0.5)
def bits(b: Builder, x: int) -> list[int]:
    b.want(b.dtype(x) in ("INT8", "INT16", "INT32"))
    other = b.of(*b.like(x)) if b.like(x) and b.chance(0.5) else b.const((1,) * len(b.shape(x)), b.dtype(x))
    return [b.add(b.of("bitwise_and", "bitwise_or", "bitwise_xor"), x, other)]


@block(1)
def choose(b: Builder, x: int) -> list[int]:
    """Adds a comparison and a SELECT by it. The mask may be combined, inverted, reduced, or kept."""
    b.want_activation(x)
    y = _partner(b, x)
    mask = b.add(b.of("equal", "greater", "greater_equal"), b.widen(x), b.widen(y))
    if b.chance(0.4):
        masks = [v for v in b.values if b.dtype(v) == "BOOL" and b.shape(v) == b.shape(mask)]
        another = b.add("greater", b.widen(y), b.widen(b.unary(x)))
        mask = b.add(b.of("logical_and", "logical_or", "logical_xor"), b.of(*masks, another), mask)
    if b.chance(0.3):
        mask = b.add("logical_not", mask)
    if b.chance(0.3):
        mask = b.add(b.of("reduce_any", "reduce_all"), mask, axis=b.between(0, len(b.shape(x)) - 1))
    chosen = b.add("select", mask, *b.of((x, y), (y, x), (x, b.unary(x))))
    if b.chance(0.3) and max(b.shape(chosen)) > 1:
        chosen = part(b, chosen)[0]
    return [chosen, mask] if b.chance(0.5) else [chosen]


@block(0.5)
def casts(b: Builder, x: int) -> list[int]:
    """Adds a CAST or RESCALE between dtypes; INT16 is sometimes the dtype of what follows."""
    dtype = b.dtype(x)
    if dtype == "BOOL":
        return [b.add("cast", x, dtype="INT8")]
    if dtype == "INT32":
        return [b.rescale(x, "INT8")]
    if dtype == "INT16":
        return [b.rescale(x, "INT8", (1 << 30,), (30 + 7,), out_zp=b.zero("INT8"))]
    made: Callable[[], int] = b.of(
        lambda: b.add("cast", x, dtype="INT16"),
        lambda: b.add("cast", x, dtype="BOOL"),
        lambda: b.rescale(x, "INT16", (1 << 30,), (24,), in_zp=b.zero("INT8")),
    )
    return [made()]


@block(0.8)
def per_channel(b: Builder, x: int) -> list[int]:
    """Adds a RESCALE with a scale per channel, sometimes with equal ones."""
    b.want_activation(x)
    n = b.shape(x)[-1]
    b.want(n > 1)
    zp = b.zero(b.dtype(x))
    if b.chance(0.15):
        return [b.rescale(x, b.dtype(x), (1 << 30,) * n, (30,) * n, zp, zp)]
    if b.chance(0.2):
        x = shuffle(b, x)[0]
    return [
        b.rescale(
            x,
            b.dtype(x),
            [b.between(1 << 30, (1 << 31) - 1) for _ in range(n)],
            [b.of(30, 31) for _ in range(n)],
            zp,
            b.zero(b.dtype(x)),
        )
    ]
