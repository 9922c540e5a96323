"""Pairs of small graphs that differ in one detail, as rows of text over dtypes and attributes.

Many rows are equalities of whole numbers that bits, rounding, saturation or what TOSA leaves open break.
An input on which a pair differs is searched among limits and thresholds (`witness`).

>>> pair = next(p for p in pairs() if "x.lsl(k).asr(k)" in p.name)
>>> pair.name, witness(pair)[0]
('x = x.lsl(k).asr(k), INT8 k=1', [array([64], dtype=int8)])
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.tensor import makers
from eqsat.tensor.dtypes import DType
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.rescale import DOUBLE_ROUND
from eqsat.tensor.types import Array, Attrs, Type, attrs_of
from tests.forms import INTEGERS, OPEN, limits, value

#: Inputs among which a witness is searched.
_TRIED = 200


@dataclass(frozen=True)
class Term:
    """A node of a graph that is being built."""

    g: TensorGraph
    n: int

    @property
    def dtype(self) -> str:
        return self.g.nodes[self.n].dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.g.nodes[self.n].shape

    def const(self, values: Any, dtype: str = "", shape: tuple[int, ...] = ()) -> Term:
        """A constant, by default one number of this dtype and rank."""
        shape = shape or (np.shape(values) if np.ndim(values) else (1,) * len(self.shape))
        return Term(self.g, self.g.add_const(np.reshape(values, shape), dtype or self.dtype))

    def made(self, op: str, attrs: Attrs, *others: Term | int) -> Term:
        more = [o if isinstance(o, Term) else self.const(o) for o in others]
        return Term(self.g, self.g.add_with(op, [self.n, *(o.n for o in more)], attrs))

    def __call__(self, op: str, *others: Term | int, **attrs: Any) -> Term:
        return self.made(op, attrs_of(attrs), *others)

    # ---- of one operand

    def cast(self, *dtypes: str) -> Term:
        return self("cast", dtype=dtypes[0]).cast(*dtypes[1:]) if dtypes else self

    def wide(self) -> Term:
        return self if self.dtype == "INT32" else self.cast("INT32")

    def rescale(self, dtype: str, multiplier: Any = None, shift: Any = None, **more: Any) -> Term:
        return self.made("rescale", makers.rescale(dtype, multiplier, shift, **more))

    def clamp(self, low: int | None = None, high: int | None = None) -> Term:
        """CLAMP, which is written as MAXIMUM and MINIMUM in INT32."""
        if self.dtype == "INT32":
            return self.max(low).min(high)  # type: ignore[arg-type]
        return self.made("clamp", makers.clamp(self.dtype, low, high))

    def table(self, entries: Sequence[int]) -> Term:
        return self.made("table", makers.table(entries))

    def negate(self, in_zp: int = 0, out_zp: int = 0) -> Term:
        return self("negate", in_zp=(in_zp,), out_zp=(out_zp,))

    # ---- of several

    def __add__(self, other: Term | int) -> Term:
        return self("add", other)

    def __sub__(self, other: Term | int) -> Term:
        return self("sub", other)

    def __mul__(self, other: Term | int) -> Term:
        return self.mul(other)

    def __and__(self, other: Term | int) -> Term:
        return self("bitwise_and", other)

    def __or__(self, other: Term | int) -> Term:
        return self("bitwise_or", other)

    def __xor__(self, other: Term | int) -> Term:
        return self("bitwise_xor", other)

    def __invert__(self) -> Term:
        return self("logical_not" if self.dtype == "BOOL" else "bitwise_not")

    def __gt__(self, other: Term | int) -> Term:
        return self("greater", other)

    def __ge__(self, other: Term | int) -> Term:
        return self("greater_equal", other)

    def equal(self, other: Term | int) -> Term:
        return self("equal", other)

    def div(self, other: Term | int) -> Term:
        return self("intdiv", other)

    def max(self, other: Term | int) -> Term:
        return self.made("maximum", makers.extremum(), other)

    def min(self, other: Term | int) -> Term:
        return self.made("minimum", makers.extremum(), other)

    def mul(self, other: Term | int, shift: int = 0) -> Term:
        return self.made("mul", makers.mul(shift), other)

    def asr(self, amount: Term | int, rounds: bool = False) -> Term:
        return self("arithmetic_right_shift", amount, round=rounds)

    def lsr(self, amount: Term | int) -> Term:
        return self("logical_right_shift", amount)

    def lsl(self, amount: Term | int) -> Term:
        return self("logical_left_shift", amount)

    # ---- of several elements

    def reduce(self, kind: str, axis: int = 0) -> Term:
        attrs = makers.extremum(axis) if kind in ("max", "min") else attrs_of({"axis": axis})
        return self.made(f"reduce_{kind}", attrs)

    def argmax(self) -> Term:
        return self.made("argmax", makers.extremum(0))

    def reverse(self, axis: int = 0) -> Term:
        return self("reverse", axis=axis)

    def part(self, start: int, size: int = 1, axis: int = 0) -> Term:
        starts, sizes = [0] * len(self.shape), list(self.shape)
        starts[axis], sizes[axis] = start, size
        return self("slice", start=tuple(starts), size=tuple(sizes))

    def parts(self) -> list[Term]:
        return [self.part(k) for k in range(self.shape[0])]

    def rows(self, start: int, size: int = 1) -> Term:
        return self.part(start, size, 1)

    def concat(self, *others: Term | int, axis: int = 0) -> Term:
        return self("concat", *others, axis=axis)

    def reshape(self, *shape: int) -> Term:
        return self("reshape", shape=shape)

    def pad(self, pads: Sequence[int], value: int) -> Term:
        return self.made("pad", makers.pad(pads, value))

    def fits(self, bits: int) -> Term:
        """Sums of so many bits as INT8, which they about fill."""
        return self.rescale("INT8", 1 << 30, 23 + bits)

    def shown(self) -> Term:
        """INT48 sums as INT32."""
        return self.rescale("INT32", scale32=False) if self.dtype == "INT48" else self

    def conv(self, weights: Any, bias: int = 0, *, op: str = "conv2d", **more: Any) -> Term:
        sums = DType.of(self.dtype).accumulator
        attrs = (makers.transpose_conv if op[0] == "t" else makers.conv)(self.dtype, **more)
        return self.made(op, attrs, self.const(weights, "INT8"), self.const([bias], sums)).shown()

    def matmul(self, other: Term, zero_point: int = 0, other_zero_point: int = 0) -> Term:
        return self.made("matmul", makers.matmul(zero_point, other_zero_point), other).shown()

    def average(self, *kernel: int, **more: Any) -> Term:
        return self.made("avg_pool2d", makers.avg_pool(kernel, **more))

    def largest(self, *kernel: int, **more: Any) -> Term:
        return self.made("max_pool2d", makers.max_pool(kernel, **more))

    def framed(self, value: int) -> Term:
        """One row and column of a value in front of an image."""
        return self.pad((0, 0, 1, 0, 1, 0, 0, 0), value)

    def resize(self, mode: int, scale: Sequence[int], offset: Sequence[int], border: Sequence[int]) -> Term:
        return self("resize", mode=mode, scale=scale, offset=offset, border=border).shown()


def chained(terms: Sequence[Term]) -> Term:
    """The sum, from the first to the last."""
    return chained([terms[0] + terms[1], *terms[2:]]) if len(terms) > 1 else terms[0]


# ---- pairs ----------------------------------------------------------------------------------------

Names = Mapping[str, Any]


@dataclass(frozen=True)
class Pair:
    """Two expressions of inputs x, y, z of some types.

    names: the other names in them. points: values of the inputs at which they may differ.
    where: an input at which they do, one value or array of each, for what no search among limits finds.
    """

    kind: str
    one: str
    other: str
    types: tuple[Type, ...]
    names: Names = field(default_factory=dict)
    points: tuple[int, ...] = ()
    where: str = ""

    @property
    def name(self) -> str:
        chosen = (
            f"{k}={v}" for k, v in self.names.items() if k not in ("d", "low", "high", "bits") and len(str(v)) < 40
        )
        return f"{self.one} = {self.other}, {' '.join([self.types[-1].dtype, *chosen])}"

    def graphs(self) -> tuple[TensorGraph, TensorGraph]:
        return self._built(self.one), self._built(self.other)

    def _built(self, text: str) -> TensorGraph:
        g = TensorGraph()
        xs = {n: Term(g, g.add_input(n, t.shape, t.dtype)) for n, t in zip("xyz", self.types, strict=False)}
        g.outputs.append(eval(text, {**globals(), **self.names, **xs}).n)
        return g

    def inputs(self) -> Iterator[list[Array]]:
        """Inputs at limits: all combinations, or some of them, and elements that differ."""
        if self.where:
            given = zip(eval(f"({self.where},)", {**globals(), **self.names}), self.types, strict=True)
            yield [np.broadcast_to(np.asarray(v, DType.of(t.dtype).storage), t.shape).copy() for v, t in given]
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        columns = [limits(t.dtype, *self.points) for t in self.types]
        rows = list(itertools.product(*columns))
        for k in rng.permutation(len(rows))[:_TRIED]:
            yield [np.full(t.shape, v, DType.of(t.dtype).storage) for v, t in zip(rows[k], self.types, strict=True)]
        for _ in range(_TRIED if any(t.elements > 1 for t in self.types) else 0):
            drawn = zip(columns, self.types, strict=True)
            yield [np.asarray(rng.choice(c, t.shape), DType.of(t.dtype).storage) for c, t in drawn]


def witness(pair: Pair) -> tuple[list[Array] | None, list[Array] | None]:
    """An input that shows that the second graph does not equal the first, and one for the other direction."""
    a, b = pair.graphs()
    found: list[list[Array] | None] = [None, None]
    for x in pair.inputs():
        one, other = value(a, x), value(b, x)
        for k, (p, q) in enumerate(((one, other), (other, one))):
            if found[k] is None and differs(p, q):
                found[k] = x
        if None not in found:
            break
    return found[0], found[1]


def differs(a: Array | None, b: Array | None) -> bool:
    """Whether the first graph gives a result that the second does not."""
    return a is not OPEN and (b is OPEN or not np.array_equal(a, b))


#: Two expressions, and perhaps where they differ.
Rows = Sequence[tuple[str, ...]]
#: {kind: its pairs}.
KINDS: dict[str, list[Pair]] = {}


def of(*dtypes: str, shape: Sequence[int] = (1,)) -> tuple[Type, ...]:
    return tuple(Type(tuple(shape), d) for d in dtypes)


def combined(
    kind: str, types: tuple[Type, ...], rows: Rows, points: Sequence[int | str] = (), **names: Any
) -> list[Pair]:
    """The rows for all combinations of the names that are lists.

    The first type's dtype is d, with low, high and bits. points: numbers, or texts in these names.
    """
    dtype = DType.of(types[0].dtype)
    known = {"d": dtype.name, "low": dtype.limits[0], "high": dtype.limits[1], "bits": dtype.bits}
    out = []
    for chosen in itertools.product(*(v if isinstance(v, list) else [v] for v in names.values())):
        here = {**known, **dict(zip(names, chosen, strict=True))}
        at = tuple(p for text in points for p in np.ravel(eval(str(text), {**globals(), **here})).tolist())
        out += [Pair(kind, one, other, types, here, at, *where) for one, other, *where in rows]
    return out


def near(kind: str, types: tuple[Type, ...], rows: Rows, points: Sequence[int | str] = (), **names: Any) -> None:
    """Adds pairs, as `combined` gives them, to a kind."""
    known = KINDS.setdefault(kind, [])
    known += [p for p in combined(kind, types, rows, points, **names) if p not in known]


def pairs() -> Iterator[Pair]:
    """All pairs of all kinds; some turn out to be equal."""
    return itertools.chain.from_iterable(KINDS.values())


# fmt: off
# ---- dtypes and bits ------------------------------------------------------------------------------

for _wide, _narrow in (("INT16", "INT8"), ("INT32", "INT8"), ("INT32", "INT16")):
    near(
        "a CAST that narrows",
        of(_wide),
        [
            ("x", "x.cast(n, d)"),
            ("x.rescale(n)", "x.cast(n)"),
            ("x.clamp(*ends)", "x.cast(n, d)"),
            ("x.wide().max(ends[0]).min(ends[1]).cast(n)", "x.wide().max(ends[0]).min(ends[1] + 1).cast(n)"),
            ("x.wide().max(ends[0]).min(ends[1]).cast(n)", "x.wide().max(ends[0] - 1).min(ends[1]).cast(n)"),
        ],
        ["ends"],
        n=_narrow,
        ends=DType.of(_narrow).limits,
    )
for _d in INTEGERS:
    near(
        "a CAST that narrows",
        of(_d),
        [
            ("x.wide().min(1).max(0)", "x.cast('BOOL', 'INT32')"),
            ("x & 1", "x.cast('BOOL', d)"),
            ("x.wide()", "x.cast('BOOL', 'INT32')"),
        ],
    )
    near(
        "shifts there and back",
        of(_d),
        [
            ("x", "x.lsl(k).asr(k)"),
            ("x", "x.lsl(k).lsr(k)"),
            ("x", "x.asr(k).lsl(k)"),
            ("x & (-1 << k)", "x.lsr(k - 1).lsl(k - 1)"),
            ("x.asr(k)", "x.lsr(k)"),
            ("x.wide() * (1 << k)", "x.lsl(k).wide()"),
            ("x.wide().lsl(k)", "x.lsl(k).wide()"),
            ("x.wide().lsl(k).asr(k)", "x.lsl(k).wide().asr(k)"),
            ("x.wide().lsr(k)", "x.lsr(k).wide()"),
            ("x.lsl(k)", "x.lsl(k - 1)"),
        ],
        ["1 << bits - 1 - k", "high >> k"],
        k=[1, DType.of(_d).bits // 2, DType.of(_d).bits - 2],
    )
    near(
        "shifts there and back",
        of(_d),
        [
            ("x.wide() & ones", "x.lsr(0).wide()"),
            ("x.wide().lsl(1) > high // 2", "x.lsl(1).wide() > high // 2"),
            ("x.lsl(bits - 1)", "x & low"),
        ],
        ["high // 2"],
        ones=(1 << min(DType.of(_d).bits, 31)) - 1,
    )
    near(
        "an amount that the dtype lacks",
        of(_d),
        [
            ("x.asr(bits - 1)", "x.asr(k)"),
            ("x & 0", "x.lsr(k)"),
            ("x & 0", "x.lsl(k)"),
        ],
        k=sorted({DType.of(_d).bits, DType.of(_d).bits + 1, 32, 40, 100, -1}),
    )
    near(
        "rounding of a shift",
        of(_d),
        [
            ("x.asr(k, True)", "x.asr(k)"),
            ("x.asr(k, True)", "x.asr(k - 1, True).asr(1, True)"),
            ("x.asr(k, True)", "x.asr(k - 1).asr(1, True)"),
            ("x.asr(k, True)", "x.rescale(d, 1, k)"),
            ("x.asr(k)", "x.rescale(d, 1 << 31 - k, 31)"),
        ],
        ["1 << k - 1", "3 << k - 1"],
        k=[2, 3, 5, 7],
    )
    near(
        "a variable shift",
        of(_d, _d),
        [
            ("x.asr(y, True)", "x.asr(y)"),
            ("x.asr(y)", "x.lsr(y)"),
            ("x.lsl(y)", "y.lsl(x)"),
            ("x.const(64).asr(x)", "x.const(63).asr(x)"),
            ("x.const(-1)", "x.const(-1).asr(x)"),
            ("x", "x.lsl(y).asr(y)"),
            ("x.lsl(y)", "x.lsl(y & (bits - 1))"),
        ],
        ["bits", 3],
    )
    near(
        "bits",
        of(_d, _d),
        [(f"x {a} y", f"x {b} y") for a, b in itertools.combinations("&|^", 2)]
        + [("~x", "x.negate()"), ("~x", "x ^ high"), ("x", "x & high"), ("x", "x | 1"), ("x & -2", "x.asr(1)")],
    )
for (_d, _w), _op in itertools.product(
    (("INT8", "INT16"), ("INT8", "INT32"), ("INT16", "INT32")), ("lsl", "lsr", "asr")
):
    near(
        "a variable shift in another dtype",
        of(_d, _d),
        [
            (f"x.cast(w).{_op}(y.cast(w))", f"x.{_op}(y).cast(w)"),
            (f"x.cast(w).{_op}(y.cast(w)).cast(d)", f"x.{_op}(y)"),
            (f"(x & 3).cast(w).{_op}(y.cast(w))", f"(x & 3).{_op}(y).cast(w)"),
        ],
        [7, 8, 15],
        w=_w,
    )
near("bits", of("BOOL", "BOOL"), [(f"x('logical_{a}', y)", f"x('logical_{b}', y)") for a, b in itertools.combinations(("and", "or", "xor"), 2)])
near("bits", of("INT32"), [("x('clz')", "x.asr(k)('clz') - k"), ("x('clz')", "(x | k)('clz')")], k=[1, 3, 31])

# ---- products and sums ----------------------------------------------------------------------------

_TWO, _ONE = of("INT32", "INT32"), of("INT32")
for _s in (1, 2, 15, 30, 31, 32, 47, 61, 62):
    near(
        "MUL with a shift",
        _TWO,
        [
            ("x.mul(y, s)", "x.mul(y, s).min(c)"),
            ("x.mul(y, s)", "x.mul(y, s).max(-c)"),
            ("x.mul(x, s)", "x.mul(x, s).min(c)"),
            ("x.const(0) > 0", "x.mul(y, s) > c"),
        ],
        [1 << 30],
        s=_s,
        c=[c for c in ((1 << 62 >> _s) - 1, 1 << 61 >> _s, (1 << 61 >> _s) - 1, 1 << 60 >> _s) if 0 < c < 1 << 31],
    )
    near(
        "MUL with a shift",
        _TWO,
        [
            ("x.mul(y, s)", "x.mul(y, s - 1)"),
            ("x.mul(12345, s)", "x.mul(12346, s)"),
            ("x.mul(3, s)", "x.mul(6, s + 1)"),
            ("x.mul(y, s)", "x.mul(y, s - 1).asr(1, True)"),
            ("x.mul(y, s).mul(77, s)", "x.mul(77, s).mul(y, s)"),
            ("x.mul(y, s)", "x * y"),
        ],
        [1 << 30, 1 << 15, 3],
        s=_s,
    )
for _d in ("INT8", "INT16"):
    near(
        "MUL with a shift",
        of(_d, _d),
        [
            ("x * x", "(x * x).min(low * low - 1)"),
            ("x * y", "(x * y).min(low * low - 1)"),
            ("x * y", "(x * y).max(low * high + 1)"),
            ("x.wide().mul(y.wide(), 15)", "(x * y).asr(15)"),
            ("x * y", "(x * y).cast('INT16').wide()"),
        ],
    )
near(
    "sums that overflow on the way",
    _TWO,
    [
        ("x", "x + c - c"),
        ("x", "x - c + c"),
        ("x + y + c", "x + c + y"),
        ("x >= c", "x - c >= 0"),
        ("x > c", "x >= x.const(c) + 1"),
    ],
    ["c", "-c"],
    c=[1 << 30, (1 << 31) - 1, 12345],
)
near(
    "sums that overflow on the way",
    _TWO,
    [
        ("x", "(x * (1 << s)).asr(s)"),
        ("x", "(x * (s + 2)).div(s + 2)"),
        ("x.asr(s)", "(x.asr(s) * 3).div(3) + (x - x)"),
        ("(x + y) * (s + 2)", "x * (s + 2) + y * (s + 2)"),
        ("x * (1 << s)", "chained([x] * (s + 1))"),
    ],
    ["1 << 31 - s"],
    s=[1, 2, 8],
)
near(
    "sums that overflow on the way",
    of("INT32", "INT32", "INT32"),
    [
        ("x - y", "(y - x).negate()"),
        ("x + y + z", "x + (y + z)"),
        ("x.max(y)", "x + y - x.min(y)"),
        ("x - y", "x + y.negate()"),
        ("x", "x + y - y"),
        ("x > y", "x - y > 0"),
        ("x * y * z", "x.mul(y, 1) * z"),
        ("x.max(y) + z", "(x + z).max(y + z)"),
    ],
)
for _n in (2, 3, 4):
    near(
        "reductions",
        of("INT32", shape=(_n,)),
        [
            ("x.reduce('sum')", "x.reverse().reduce('sum')"),
            ("x.reduce('sum')", "chained(x.parts()[1:] + x.parts()[:1])"),
            ("x.reduce('sum')", "x.part(0, n - 1).reduce('sum')"),
            ("x.reduce('sum')", "chained([v.asr(1) for v in x.parts()]) * 2"),
            ("x.reduce('sum')", "x.concat(x.const(1)).reduce('sum') - 1"),
            ("x.reduce('sum')", "x.const(1).concat(x).reduce('sum') - 1"),
        ],
        n=_n,
    )
    for _d in INTEGERS:
        near(
            "reductions",
            of(_d, shape=(_n,)),
            [
                ("x.reduce('max')", "x.reduce('min')"),
                ("x.reduce('max')", "x.part(1, n - 1).reduce('max')"),
                ("x.reduce('max')", "x.concat(0).reduce('max')"),
                ("x.reduce('max')", "x.concat(low + 1).reduce('max')"),
                ("x.reduce('min')", "(~x).reduce('max')"),
                ("x.reduce('min')", "x.negate().reduce('max').negate()"),
            ],
            n=_n,
        )
    near("reductions", of("BOOL", shape=(_n,)), [("x.reduce('any')", "x.reduce('all')")])
near(
    "reductions",
    of("INT32", shape=(2, 2)),
    [
        ("x.reduce('sum', 0).reshape(2)", "x.reduce('sum', 1).reshape(2)"),
        ("x.reduce('max', 0).reshape(2)", "x.reduce('max', 1).reshape(2)"),
        ("x.reduce('sum', 0).reduce('sum', 1)", "x.reduce('sum', 1).reduce('sum', 0)"),
        ("x.reduce('max', 0).reduce('min', 1)", "x.reduce('min', 1).reduce('max', 0)"),
    ],
)
for _d in INTEGERS:
    near(
        "the lowest value",
        of(_d, _d),
        [
            ("x", "x.negate().negate()"),
            ("x.wide().negate()", "x.negate().wide()"),
            ("x.wide().max(x.const(0, 'INT32') - x.wide())", "x.wide()('abs')"),
            ("x.wide()('abs').rescale('INT8')", "x.wide()('abs').cast('INT8')"),
            ("x.wide()", "x.wide().max(low + 1)"),
            ("x.wide().max(y.wide())", "x.negate().wide().min(y.negate().wide()).negate()"),
        ],
    )
near(
    "the lowest value",
    of("INT8"),
    [
        ("x.negate(a, b)", "x.negate(a + (1 if a < 127 else -1), b)"),
        ("x.negate(a, b)", "x.negate(b, a)"),
        ("x.negate(a, b)", "x.rescale('INT8', in_zp=a).negate(0, b)"),
        ("x.negate(a, b)", "(x.const(a + b, 'INT32') - x.wide()).cast('INT8')"),
    ],
    ["a", "b"],
    a=[-128, 0, 5, 127],
    b=[0, -128, 127],
)
near(
    "the lowest value",
    _ONE,
    [("~x + 1", "x.negate()"), ("x.const(0) - x", "~(x - 1)"), ("x.const(5)", "(x.negate() & 0) + 5")],
)
near(
    "signs of INTDIV",
    _TWO,
    [
        ("x.div(c)", "x.asr(k)"),
        ("x.div(c)", "x.asr(k, True)"),
        ("x.div(c)", "x.div(-c)"),
        ("x.div(c)", "x.div(c + 1)"),
        ("x.div(c) * c", "x"),
        ("x.div(c)", "x.negate().div(-c)"),
        ("x.div(c)", "(x + c).div(c) - 1"),
        ("x.div(c)", "x.max(0).div(c) + x.min(1).div(c)"),
    ],
    ["c", "c // 2", "c * (c + 1)"],
    c=[2, 3, 4, 7, 1 << 20],
    k=2,
)
near(
    "signs of INTDIV",
    _TWO,
    [
        ("x.const(1)", "x.div(x)"),
        ("~x + 1", "x.div(-1)"),
        ("x.const(0) - x", "x.div(-1)"),
        ("x.div(y)", "y.div(x)"),
        ("x.div(y)", "x.negate().div(y.negate())"),
        ("x.div(y)", "x.negate().div(y).negate()"),
        ("x.const(0)", "x.const(0).div(x)"),
        ("x.const(0)", "x.div(0) & 0"),
        ("x.div(y.max(1))", "x.div(y)"),
    ],
    [5, 7],
)

# ---- RESCALE --------------------------------------------------------------------------------------


def ties(m: int, s: int) -> list[int]:
    """Values at which a scale changes its result."""
    return [((v << s) + (1 << s - 1)) // max(m, 1) for v in (-129, -128, -2, -1, 0, 1, 126, 127, 300)]


for _d in INTEGERS:
    near(
        "a scale of RESCALE",
        of(_d),
        [
            ("x.rescale(to, m, s)", "x.rescale(to, m, s + 1)"),
            ("x.rescale(to, m, s)", "x.rescale(to, m - (1 << 20), s)"),
            ("x.rescale(to, m, s)", "x.rescale(to, m, s, rounding_mode=DOUBLE_ROUND)"),
            ("x.rescale('INT8', m, s, out_zp=-3)", "x.rescale('INT8', m, s, out_zp=-2)"),
            ("x.rescale(to, m, s)", "x.rescale('INT8', m, s).rescale(to)"),
            ("x.rescale('INT8', m, s)", "x.rescale('INT32', m, s).cast('INT8')"),
            ("x.rescale('INT8', m, s)", "x.rescale('INT16', m, s - 4).rescale('INT8', 1 << 30, 34)"),
        ],
        ["ties(m, s)"],
        to="INT8" if _d == "INT32" else _d,
        m=[1 << 30, (1 << 31) - 1, 1_518_500_250],
        s=[31, 33, 38, 50],
    )
    _shifts = [2, 6, 7] if _d == "INT8" else [2, 9, 15] if _d == "INT16" else [8, 20, 30, 31]
    near(
        "RESCALE beyond its shift",
        of(_d),
        [
            ("x.asr(s, True)", "x.rescale(d, 1, s)"),
            ("x & 0", "x.rescale(d, 0, s)"),
            ("x.rescale('INT32', 4, s + 2)", "x.rescale('INT32', 1, s)"),
            ("x.const(7, 'INT8')", "x.rescale('INT8', 0, s, out_zp=7)"),
            ("x.const(0, 'INT8')", "x.rescale('INT8', 0, s, in_zp=127 if d == 'INT8' else 0)"),
            ("x.const(0, 'INT8')", "x.rescale('INT8', 0, s, input_unsigned=d != 'INT32')"),
        ],
        ["1 << s - 1", "-(1 << s - 1)", "1 << s", "-(1 << s)"],
        s=_shifts,
    )
    if _d != "INT8":
        near(
            "RESCALE of 16 bits",
            of(_d),
            [
                ("x.rescale('INT32', m << 16, s + 16)", "x.rescale('INT32', m, s, scale32=False)"),
                ("x.rescale('INT32', m, s + 1, scale32=False)", "x.rescale('INT32', m, s, scale32=False)"),
                ("x.rescale('INT8', m << 16, s + 16)", "x.rescale('INT8', m, s, scale32=False)"),
                ("x.rescale('INT8', m, s, scale32=False).wide()", "x.rescale('INT32', m, s, scale32=False).clamp(-128, 127)"),
                ("x.const(0)", "x.rescale(d, m, s, scale32=False) & 0"),
            ],
            ["((1 << 31) << s) // m", "-((1 << 31) << s) // m", "1 << s"],
            m=[1, 1 << 14, 32767],
            s=[2, 7, 14, 20],
        )
    for _n, (_m, _s, _more) in itertools.product(
        (2, 3),
        (
            ([1 << 30, 3 << 28, 5 << 27], [31, 33, 30], {}),
            ([1 << 30, 3 << 28, 5 << 27], [33, 31, 32], {"rounding_mode": DOUBLE_ROUND}),
            ([1 << 30, 3 << 28, 5 << 27], [34, 33, 32], {"rounding_mode": DOUBLE_ROUND}),
            ([1 << 30, 3 << 28, 5 << 27], [31, 30, 30], {"output_unsigned": True}),
            ([1 << 30, 3 << 28, 5 << 27], [31, 30, 31], {"input_unsigned": True}),
            ([1 << 14, 3 << 12, 5 << 11], [15, 14, 14], {"scale32": False}),
        ),
    ):
        if _d == "INT32" and {"input_unsigned", "output_unsigned"} & set(_more):
            continue  # TOSA has no such ones
        near(
            "RESCALE per channel",
            of(_d, shape=(2, _n)),
            [
                ("x.rescale('INT8', m, s, **how).reverse(1)", "x.reverse(1).rescale('INT8', m, s, **how)"),
                ("x.rescale('INT8', m, s, **how)", "x.rescale('INT8', m[::-1], s[::-1], **how)"),
                ("x.rescale('INT8', m, s, **how)", "x.rescale('INT8', m[:1] * len(m), s, **how)"),
                ("x.rescale('INT8', m, s, **how)", "x.rescale('INT8', m, s[1:] + s[:1], **how)"),
                ("x.rescale('INT8', m, s, **how)", "x.rescale('INT8', m[0], s[0], **how)"),
                ("x.rescale('INT8', m, s, **how).part(0)", "x.rescale('INT8', m, s, **how).part(1)"),
            ],
            [99],
            m=[_m[:_n]],
            s=[_s[:_n]],
            how=_more,
        )
_MANY = [(7 * k + 3) << 20 for k in range(256)]
near(
    "RESCALE per channel",
    of("INT8", shape=(1, 256)),
    [("x.rescale('INT8', m, [34] * 256, **how)", "x.table([min(max((v % of * m[v + 128] + (1 << 33)) >> 34, -128), 127) for v in range(-128, 128)])")],
    [99],
    m=[_MANY],
    how=[{"input_unsigned": True}],
    of=256,
)
near(
    "a zero point of RESCALE",
    of("INT8"),
    [
        ("x.rescale('INT32', 1 << 30, 20, in_zp=zp)", "x.rescale('INT32', 1 << 30, 20, in_zp=zp + (1 if zp < 127 else -1))"),
        ("x.rescale('INT8', 1 << 30, 31, in_zp=zp)", "x.rescale('INT8', 1 << 30, 31, out_zp=-zp // 2)"),
        ("x.rescale('INT8', in_zp=zp, out_zp=zp)", "x.rescale('INT8', in_zp=zp).rescale('INT8', out_zp=zp)"),
        ("x.rescale('INT8', 1 << 30, 31, in_zp=zp)", "x.rescale('INT8', 1 << 30, 31, in_zp=zp, input_unsigned=True)"),
        ("x.rescale('INT8', 1 << 30, 31, in_zp=zp)", "x.rescale('INT8', 1 << 30, 31, in_zp=zp, output_unsigned=True)"),
    ],
    ["zp"],
    zp=[-128, -1, 5, 127],
)
near(
    "sums of INT48",
    of("INT16", shape=(1, 1, 1, 2)),
    [
        ("summed(x, c, s)", "summed(x, c + (1 << s - 14), s)"),
        ("summed(x, c, s)", "summed(x, c, s + 1)"),
        ("summed(x, c, s)", "summed(x, c, s, (100, -76))"),
        ("summed(x, c, s)", "summed(x, c, s, dtype='INT32').rescale('INT8')"),
        ("summed(x, c, s)", "summed(x, c, s, dtype='INT32').cast('INT8')"),
        ("x.const([[[[3]]]], 'INT32')", "(summed(x, c, s, dtype='INT32') & 0) + 3"),
    ],
    c=[0, -1, 1 << 30, (1 << 31) - 1, (1 << 44), (1 << 46) - 1],
    s=[14, 15, 30, 40],
)


def summed(x: Term, bias: int, shift: int, weights: Sequence[int] = (100, -77), dtype: str = "INT8") -> Term:
    """A convolution of INT16 to INT48 and its RESCALE."""
    w, b = x.const([[[weights]]], "INT8"), x.const([bias], "INT48")
    return x.made("conv2d", makers.conv("INT16"), w, b).rescale(dtype, 1 << 14, shift, scale32=False)


# ---- limits, comparisons, tables ------------------------------------------------------------------

for _d in ("INT8", "INT16"):
    _low, _high = DType.of(_d).limits
    near(
        "a limit of CLAMP",
        of(_d, _d),
        [
            ("x.clamp(*ends)", "x.clamp(ends[0], min(ends[1] + 1, high))"),
            ("x.clamp(*ends)", "x.clamp(max(ends[0] - 1, low), ends[1])"),
            ("x.clamp(*ends)", "x"),
            ("x.clamp(*ends)", "x.wide().max(ends[0]).min(ends[1] + 1).rescale(d)"),
            ("x.clamp(*ends)", "x.wide().min(ends[0]).max(ends[1]).rescale(d)"),
            ("x.clamp(*ends)", "x.clamp(*ends).negate().negate().clamp(ends[0], ends[1]) if ends[0] > low else x.negate().negate()"),
            ("(x.wide() + y.wide()).clamp(*ends)", "x.clamp(*ends).wide() + y.clamp(*ends).wide()"),
        ],
        ["ends"],
        ends=[(_low, _high - 1), (_low + 1, _high), (-1, 1), (0, _high), (5, 5)],
    )
for _d in INTEGERS:
    near(
        "comparisons",
        of(_d, _d),
        [
            ("x.wide() > y.wide()", "x.wide() >= y.wide()"),
            ("x.wide() > y.wide()", "y.wide() > x.wide()"),
            ("x.wide() > y.wide()", "~(y.wide() > x.wide())"),
            ("x.wide() > y.wide()", "x.wide() >= y.wide() + 1"),
            ("x.wide() > y.wide()", "x.wide() - 1 >= y.wide()"),
            ("x.wide().equal(y.wide())", "x.wide() >= y.wide()"),
            ("x.wide().equal(y.wide())", "x.asr(1).wide().equal(y.asr(1).wide())"),
            ("x.wide() >= y.wide()", "x.asr(1).wide() >= y.asr(1).wide()"),
            ("x.wide() >= y.wide()", "x.lsl(1).wide() >= y.lsl(1).wide()"),
            ("x.wide() > c", "x.wide() >= c"),
            ("x.wide().equal(c)", "x.wide() >= c"),
            ("x.wide() > c", "x.wide().max(c) > c - 1 if c > low else x.wide() >= x.wide()"),
        ],
        ["c"],
        c=[0, 77, *DType.of(_d).limits],
    )
for _d in ("BOOL", *INTEGERS):
    _rows = [
        ("x('select', y, z)", "x('select', z, y)"),
        ("x('select', y, z)", "(~x)('select', y, z)"),
        ("x('select', y, z)", "y"),
        ("x('select', y, z)", "x('select', y, y)"),
    ]
    if _d != "BOOL":
        _rows += [
            ("y.wide().max(z.wide())", "(y.wide() > z.wide())('select', z.wide(), y.wide())"),
            ("y.wide()('abs')", "(y.wide() > 0)('select', y.wide(), y.const(0, 'INT32') - y.wide())"),
            ("y", "z.wide().equal(0)('select', z, y)"),
            ("x('select', y, z)", "x.cast(y.dtype).wide() * y.wide() + (~x).cast(y.dtype).wide() * z.wide()"),
            ("x('select', y, z).wide().negate()", "x('select', y.negate(), z.negate()).wide()"),
        ][: 5 if _d == "INT32" else 3] + [("x('select', y, z).wide().negate()", "x('select', y.negate(), z.negate()).wide()")]
    else:
        _rows += [("x('select', y, z)", "x('logical_and', y)"), ("x('select', y, z)", "x('logical_xor', y)")]
    near("SELECT", of("BOOL", _d, _d), _rows, dtype=_d)

RISING, LINE = [v // 2 for v in range(-128, 128)], [60 * v for v in range(-256, 257)]


def changed(entries: Sequence[int], k: int, by: int = 1) -> list[int]:
    return [v + by * (i == k) for i, v in enumerate(entries)]


def steep(k: int) -> list[int]:
    """Entries with one slope that 16 bits do not hold."""
    return [-32768 * (i == k) + 32767 * (i == k + 1) for i in range(513)]


near(
    "one entry of a TABLE",
    of("INT8", shape=(2,)),
    [
        ("x.table(RISING)", "x.table(changed(RISING, k))"),
        ("x.reduce('max').table(RISING)", "x.table(changed(RISING, k, 3)).reduce('max')"),
        ("x.reduce('max').table(RISING[::-1])", "x.table(RISING[::-1]).reduce('max')"),
        ("x.clamp(-5, 5).table(RISING)", "x.clamp(-5, 5).table(changed(RISING, 128 + k % 6))"),
    ],
    ["k - 128"],
    k=[0, 1, 127, 128, 129, 254, 255],
)
near(
    "one entry of a TABLE",
    of("INT16"),
    [
        ("x.table(LINE)", "x.table(changed(LINE, k))"),
        ("x.table(LINE).rescale('INT16', 1 << 30, 37)", "x.table(changed(LINE, k)).rescale('INT16', 1 << 30, 37)"),
        ("x.const(0, 'INT32')", "x.table(steep(min(k, 511))) & 0"),
        ("x.table([0] * 513)", "x.clamp(-100, 100).table(steep(min(k, 511))) * 0"),
    ],
    ["128 * k - 32768 + 64", "128 * k - 32768"],
    k=[0, 1, 255, 256, 257, 511, 512],
)
for _d, _n in itertools.product(("INT8", "INT16"), (2, 3, 4)):
    near(
        "ties of ARGMAX",
        of(_d, shape=(_n, 1)),
        [
            ("x.argmax()", "x.const(n - 1, 'INT32', (1,)) - x.reverse().argmax()"),
            ("x.argmax()", "x.clamp(low, 5).argmax()"),
            ("x.argmax()", "x.asr(1).argmax()"),
            ("x.argmax()", "x.part(1, n - 1).concat(x.part(0)).argmax()"),
            ("x.argmax()", "x.part(0, n - 1).argmax()"),
            ("x.argmax()", "x.negate().argmax()"),
            ("x.argmax()", "(~x).argmax()"),
            ("x.argmax()", "x.rescale('INT8', 1 << 30, 31).argmax()"),
        ],
        n=_n,
    )

# ---- windows and positions ------------------------------------------------------------------------

W = np.array([[1, -2], [3, 40]]).reshape(1, 2, 2, 1)
#: One more in one weight.
ONE_MORE = W + np.array([[0, 0], [0, 1]]).reshape(1, 2, 2, 1)
SQUARE, BOTH = np.array([[1, 2], [3, 4]]).reshape(2, 1, 1, 2), np.arange(1, 5).reshape(1, 1, 2, 2)
for _d in ("INT8", "INT16"):
    near(
        "a window",
        of(_d, shape=(1, 3, 3, 1)),
        [
            ("x.conv(W)", "x.conv(W, 1)"),
            ("x.conv(W)", "x.conv(W[:, ::-1])"),
            ("x.conv(W)", "x.conv(W.transpose(0, 2, 1, 3))"),
            ("x.conv(W)", "x.conv(ONE_MORE)"),
            ("x.conv(W, pad=(1, 0, 1, 0))", "x.conv(W, pad=(0, 1, 0, 1))"),
            ("x.conv(W, pad=(1, 0, 1, 0))", "x.framed(1).conv(W)"),
            ("x.conv(W)", "x.conv(W, pad=(1, 1, 1, 1)).part(0, 2, 1).part(0, 2, 2)"),
            ("x.conv(W, dilation=(2, 2))", "x.conv(W).part(0, 1, 1).part(0, 1, 2)"),
            ("x.conv(W, pad=(1, 0, 1, 0), stride=(2, 2))", "x.conv(W, pad=(0, 1, 0, 1), stride=(2, 2))"),
            ("x.conv(W, op='transpose_conv2d', out_pad=(0, 1, 0, 0))", "x.conv(W, op='transpose_conv2d', out_pad=(1, 0, 0, 0))"),
            ("x.conv(W, op='transpose_conv2d', out_pad=(0, -1, 0, 0))", "x.conv(W, op='transpose_conv2d', out_pad=(-1, 0, 0, 0))"),
            ("x.conv(W, op='transpose_conv2d', stride=(2, 2))", "x.conv(W[:, ::-1], op='transpose_conv2d', stride=(2, 2))"),
        ],
    )
    near(
        "a window",
        of(_d, shape=(1, 1, 1, 2)),
        [
            ("x.conv(SQUARE)", "x.conv(SQUARE.transpose(3, 1, 2, 0))"),
            ("x.conv(BOTH, op='depthwise_conv2d')", "x.conv(BOTH.swapaxes(2, 3), op='depthwise_conv2d')"),
            ("x.conv(SQUARE)", "x.conv(SQUARE).reverse(3)"),
        ],
    )
    near(
        "a window",
        of(_d, _d, shape=(1, 2, 2)),
        [
            ("x.matmul(y)", "y.matmul(x)"),
            ("x.matmul(y)", "x.matmul(y('transpose', perms=(0, 2, 1)))"),
            ("x.matmul(y)", "x.reverse(2).matmul(y)"),
        ],
    )
    near(
        "pools",
        of(_d, shape=(1, 3, 3, 1)),
        [
            ("x.average(2, 2, pad=(1, 0, 1, 0))", "x.framed(0).average(2, 2)"),
            ("x.average(2, 2, pad=(1, 0, 1, 0))", "x.average(2, 2, pad=(0, 1, 0, 1))"),
            ("x.average(2, 1)", "x.average(1, 1).part(0, 2, 1)"),
            ("x.average(3, 3)", "x.average(3, 1).average(1, 3)"),
            ("x.average(3, 3)", "x.wide().reduce('sum', 1).reduce('sum', 2).div(9).rescale(d)"),
            ("x.average(2, 2)", "quarter(x)"),
            ("x.largest(2, 2, pad=(1, 0, 1, 0))", "x.framed(0).largest(2, 2)"),
            ("x.largest(2, 2, pad=(1, 0, 1, 0))", "x.framed(low + 1).largest(2, 2)"),
            ("x.largest(3, 3)", "x.average(3, 3)"),
            ("x.largest(3, 3)", "x.largest(2, 3).part(0, 1, 1)"),
            ("x.largest(2, 2).negate()", "x.negate().largest(2, 2)"),
            ("x.largest(2, 2)", "x.largest(2, 2, pad=(1, 1, 1, 1)).part(0, 2, 1).part(0, 2, 2)"),
        ],
    )
near(
    "a zero point of a window",
    of("INT8", shape=(1, 3, 3, 1)),
    [
        ("x.conv(W, in_zp=zp)", "x.conv(W, in_zp=zp + step)"),
        ("x.conv(W, w_zp=zp)", "x.conv(W, w_zp=zp + step)"),
        ("x.conv(W, in_zp=zp)", "x.conv(W, w_zp=zp)"),
        ("x.conv(W, in_zp=zp, pad=(1, 0, 1, 0))", "x.framed(zp + step).conv(W, in_zp=zp)"),
        ("x.average(2, 2, in_zp=zp)", "x.average(2, 2, in_zp=zp + step)"),
        ("x.average(2, 2, out_zp=zp)", "x.average(2, 2, out_zp=zp + step)"),
        ("x.average(2, 2, in_zp=zp, out_zp=zp, pad=(1, 0, 1, 0))", "x.framed(zp).average(2, 2, in_zp=zp, out_zp=zp)"),
        ("x.average(3, 3, in_zp=zp, out_zp=zp)", "x.average(3, 3)"),
        ("x.reshape(1, 3, 3).matmul(x.reshape(1, 3, 3), zp, 1)", "x.reshape(1, 3, 3).matmul(x.reshape(1, 3, 3), 1, zp)"),
    ],
    zp=[-128, 3, 126],
    step=1,
)


def quarter(x: Term) -> Term:
    """The average of four elements, rounded down."""
    rows = x.wide().part(0, 2, 1) + x.wide().part(1, 2, 1)
    return (rows.part(0, 2, 2) + rows.part(1, 2, 2)).asr(2).rescale(x.dtype)


for _d in INTEGERS:
    _values, _at, _two, _new, _news = (
        Type((1, n, 1), t) for n, t in ((3, _d), (1, "INT32"), (2, "INT32"), (1, _d), (2, _d))
    )
    _at, _two = Type((1, 1), "INT32"), Type((1, 2), "INT32")
    near(
        "positions",
        (_values, _at, _new),
        [
            ("x('gather', y)", "x('gather', y.max(1))"),
            ("x('gather', y.max(0).min(2))", "x('gather', y)"),
            ("z & 0", "x('gather', y) & 0"),
            ("x.const([[[5]]])", "x.const([[[5], [5], [5]]])('gather', y)"),
            ("x('gather', y)", "x.reverse(1)('gather', y)"),
            ("x('gather', y & 1)", "x('gather', y)"),
            ("x('scatter', y, z)", "x"),
            ("x", "x('scatter', y, x('gather', y))"),
            ("z", "x('scatter', y, z)('gather', y)"),
            ("x & 0", "x('scatter', y, z) & 0"),
            ("x.rows(1)", "x('gather', x.const([[0]], 'INT32'))"),
            ("x.rows(2)", "x('gather', x.const([[3]], 'INT32'))"),
            ("z.concat(x.rows(1, 2), axis=1)", "x('scatter', x.const([[1]], 'INT32'), z)"),
            ("x('scatter', y, z).rows(0)", "x.rows(0)"),
        ],
        [0, 1, 2, 3],
    )
    near(
        "positions",
        (_values, _two, _news),
        [
            ("x('gather', y)", "x('gather', y.reverse(1))"),
            ("x('scatter', y, z)", "x('scatter', y, z.reverse(1))"),
            ("x('scatter', y.rows(0), z.rows(0))('scatter', y.rows(1), z.rows(1))", "x('scatter', y, z)"),
            ("x('scatter', y.rows(0), x('gather', y.rows(0)))", "x('scatter', y, x('gather', y))"),
            ("x & 0", "x('scatter', y, z) & 0"),
            ("z.rows(0).concat(x.rows(1, 2), axis=1)", "x('scatter', x.const([[0, 0]], 'INT32'), z)"),
        ],
        [0, 1, 2, 3],
    )
for _d, _mode in itertools.product(("INT8", "INT16"), (NEAREST, BILINEAR)):
    near(
        "a grid of RESIZE",
        of(_d, shape=(1, 3, 3, 1)),
        [
            ("x.resize(mode, (2, 1, 2, 1), (0, 0), (0, 0))", "x.resize(mode, (2, 1, 2, 1), (-1, 0), (-1, 0))"),
            ("x.resize(mode, (2, 1, 2, 1), (0, 0), (1, 1))", "x.reverse(1).resize(mode, (2, 1, 2, 1), (0, 0), (1, 1)).reverse(1)"),
            ("x.resize(mode, (2, 1, 2, 1), (0, 0), (0, 0))", "x.resize(mode, (4, 2, 4, 2), (1, 1), (1, 1))"),
            ("x.resize(mode, (4, 2, 4, 2), (1, 1), (1, 1))", "x.resize(mode, (4, 2, 4, 2), (1, 0), (1, 0))"),
            ("x.resize(mode, (3, 1, 3, 1), (-1, -1), (1, 1))", "x.resize(mode, (3, 1, 3, 1), (0, -1), (2, 1))"),
            ("x.resize(mode, (2, 2, 2, 2), (0, 0), (0, 0))", "x.resize(mode, (2, 2, 2, 2), (1, 0), (1, 0))"),
            ("x.resize(mode, (2, 1, 4, 2), (0, 1), (0, 1))", "x.resize(mode, (4, 2, 2, 1), (1, 0), (1, 0))"),
            ("x.resize(mode, (4, 1, 4, 1), (2, 2), (2, 2))", "x.resize(mode, (4, 1, 4, 1), (1, 1), (1, 1))"),
        ],
        mode=_mode,
    )
for _d in ("BOOL", *INTEGERS):
    near(
        "movements",
        of(_d, _d, shape=(2, 3)),
        [
            ("x.concat(y)", "y.concat(x)"),
            ("x.part(0, 2, 1)", "x.part(1, 2, 1)"),
            ("x.reverse(0)", "x.reverse(1)"),
            ("x.reshape(3, 2)", "x('transpose', perms=(1, 0))"),
            ("x('tile', multiples=(2, 1))", "x.concat(x.reverse(0))"),
            ("x('tile', multiples=(1, 2))", "x.reshape(2, 3, 1)('tile', multiples=(1, 1, 2)).reshape(2, 6)"),
            ("x.pad((1, 0, 0, 0), 0)", "x.pad((1, 0, 0, 0), 1)"),
            ("x.pad((1, 0, 0, 0), 0)", "x.pad((0, 1, 0, 0), 0)"),
        ],
    )

# ---- what samples miss that are drawn without regard to the graph ---------------------------------

RNG = np.random.default_rng(7)
WIDE, DEEP, MATRIX, WINDOW, FEW = (RNG.integers(-40, 41, s) for s in ((16, 1, 1, 64), (7, 7, 8, 1), (1, 96, 6), (4, 3, 3, 16), (2, 3, 3, 4)))
BITS = int(np.ceil(np.log2(np.abs(WIDE).sum((1, 2, 3)).max() * 128)))


def aligned(weights: Array) -> Array:
    """The values of INT8 of which the sum with these weights is largest."""
    return np.where(weights > 0, 127, -128)


def largest_sum(weights: Array) -> Array:
    return aligned(weights[np.abs(weights).sum((1, 2, 3)).argmax(), 0, 0])


def in_halves(x: Term, dtype: str) -> Term:
    """The sum of the sums over either half of the channels, each in a dtype."""
    halves = [x.part(k, 32, 3).conv(WIDE[..., k : k + 32]).rescale(dtype, 3 << 28, 29).wide() for k in (0, 32)]
    return (halves[0] + halves[1]).rescale("INT8", 1 << 30, 41)


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).integers(-128, 128, shape)


def chosen(condition: Term, x: Term) -> Term:
    return condition("select", x.clamp(-999, 999), x.clamp(-5, 20000))


def met(*values: tuple[Term, int]) -> Term:
    """Whether each has its value."""
    (x, k), *rest = values
    return x.wide().equal(k)("logical_and", met(*rest)) if rest else x.wide().equal(k)


def odd(x: Term) -> Term:
    """Another value on one code."""
    return x.wide().equal(-4321)("select", x.clamp(0, 9), x)


DIPPED = [-60 if k == 77 else max(-50, k // 2) for k in range(-128, 128)]
for _shape, _rows in (
    (
        (1, 8, 8, 64),
        [
            ("x.conv(WIDE).fits(BITS).clamp(-40, 40)", "x.conv(WIDE).fits(BITS)", "aligned(WIDE[3, 0, 0])"),
            ("x.conv(WIDE).min(9 * 128 * 80).fits(BITS)", "x.conv(WIDE).fits(BITS)", "aligned(WIDE[3, 0, 0])"),
            ("x.conv(WIDE).rescale('INT16', 1 << 30, 31).rescale('INT8', 1 << 30, 38)", "x.conv(WIDE).rescale('INT32', 1 << 30, 31).cast('INT16').rescale('INT8', 1 << 30, 38)", "largest_sum(WIDE)"),
            ("in_halves(x, 'INT32')", "in_halves(x, 'INT16')", "np.append(largest_sum(WIDE[..., :32]), np.zeros(32))"),
        ],
    ),
    ((1, 7, 7, 8), [("x.conv(DEEP, op='depthwise_conv2d').fits(18).clamp(-40, 40)", "x.conv(DEEP, op='depthwise_conv2d').fits(18)", "aligned(DEEP[..., 0])")]),
    ((1, 5, 96), [("x.matmul(x.const(MATRIX)).fits(19).clamp(-38, 38)", "x.matmul(x.const(MATRIX)).fits(19)", "aligned(MATRIX[0, :, 1])")]),
    ((1, 16, 9, 9), [("windowed(x).clamp(-40, 40)", "windowed(x)", "np.tile(aligned(WINDOW[1]).transpose(2, 0, 1), (1, 3, 3))[None]")]),
    (
        (1, 1, 1, 64),
        [("x.conv(WIDE[:1], excess()).rescale('INT16')", "x.conv(WIDE[:1], excess()).cast('INT16')", "aligned(WIDE[0, 0, 0])")],
    ),
    ((1, 3, 3, 4), [("x.conv(FEW, 100).fits(20)", "x.conv(FEW, 101).fits(20)", "drawn(1873, 1, 3, 3, 4)"), ("x.conv(FEW).rescale('INT8', 1 << 30, 39)", "x.conv(FEW, 1).rescale('INT8', 1 << 30, 39)")]),
    (
        (1, 3, 3, 1),
        [
            ("x.conv(FEW[..., :1], pad=(1, 0, 1, 0)).fits(20)", "x.conv(FEW[..., :1], pad=(1, 0, 1, 0), in_zp=1).fits(20)", "drawn(132, 1, 3, 3, 1)"),
            ("x.conv(FEW[..., :1], pad=(1, 0, 1, 0), in_zp=-4).fits(20)", "x.framed(-3).conv(FEW[..., :1], in_zp=-3).fits(20)", "drawn(6, 1, 3, 3, 1)"),
        ],
    ),
    ((1, 6, 2, 2), [("x.table(DIPPED).reduce('max', 1).clamp(-100, 100)", "x.table(DIPPED).pad((0, 0, 0, 1, 0, 0, 0, 0), -50).reduce('max', 1).clamp(-100, 100)", "77")]),
):
    near("sums near their extremes", of("INT8", shape=_shape), _rows)
near("sums near their extremes", of("INT16", "INT16"), [("(x.wide() + y.wide()).rescale('INT16', 1 << 30, 31)", "(x.wide() + y.wide()).rescale('INT16').rescale('INT16', 1 << 30, 31)")])


def windowed(x: Term) -> Term:
    """A strided convolution of what was moved."""
    return x("transpose", perms=(0, 2, 3, 1)).conv(WINDOW, pad=(1, 1, 1, 1), stride=(2, 2), in_zp=5).fits(19)


def excess() -> int:
    """The bias with which the largest sum leaves INT16 by one."""
    return (1 << 15) - int(WIDE[0, 0, 0] @ aligned(WIDE[0, 0, 0]))


near(
    "values that no limit is near",
    of("INT16", shape=(1, 4, 4, 4)),
    [
        ("chosen(~(x.const(12345, 'INT32') > x.wide()), x)", "chosen(x.wide() > 12345, x)", "12345"),
        ("chosen(x.wide().equal(-777), x)", "x.clamp(-5, 20000)", "-777"),
        ("chosen(x.rescale('INT32', 1 << 30, 28) >= 4 * 4321, x)", "chosen(x.rescale('INT32', 1 << 30, 28) > 4 * 4321, x)", "4321"),
        ("chosen((x * x).equal(9241**2), x)", "x.clamp(-5, 20000)", "9241"),
        ("(lambda y: chosen(y.wide().equal(4000), y))(x('transpose', perms=(0, 3, 1, 2)))('transpose', perms=(0, 2, 3, 1))", "x.clamp(-5, 20000)", "4000"),
        ("chosen((x.wide() & 0x7FFF).equal(0x5A5A), x)", "x.clamp(-5, 20000)", "0x5A5A"),
        ("x.concat(odd(x), axis=1)", "odd(x).concat(x, axis=1)", "-4321"),
        ("x.concat(odd(x), axis=1).part(0, 4, 1)", "x.concat(odd(x), axis=1).part(4, 4, 1)", "-4321"),
    ],
)
near(
    "values that no limit is near",
    of("INT16", "INT16", "INT16", shape=(1, 4, 4, 4)),
    [
        ("chosen(met((x, -4321), (y, 1234)), x)", "x.clamp(-5, 20000)", "-4321, 1234, 0"),
        ("chosen(met((x, -4321), (y, 1234), (z, 99)), x)", "x.clamp(-5, 20000)", "-4321, 1234, 99"),
        ("met((x, 311), (y, -2047), (z, 9000))('select', y, x)", "x", "311, -2047, 9000"),
        ("met((x, 777))('select', y, z)", "met((x, 777))('select', z, z)", "777, 1, 2"),
        ("chosen((x.wide() > 3000)('logical_and', y.rescale('INT32', 1 << 30, 31) > -1250), x)", "chosen((x.wide() > 3000)('logical_and', y.rescale('INT32', 1 << 30, 31) >= -1250), x)", "3001, -2500, 0"),
        ("chosen(x.wide() > y.wide(), x)", "chosen(x.wide() >= y.wide(), x)", "5000, 5000, 0"),
    ],
)
near("values that no limit is near", of("INT8", "INT8", "INT8", shape=(1, 4, 4, 4)), [("met((x, 50), (y, 61), (z, -72))('select', y.clamp(-9, 9), x).clamp(-100, 100)", "x.clamp(-100, 100)", "50, 61, -72")])

SIGMOID, SCALE = [int(127 / (1 + np.exp(-v / 30))) for v in range(-128, 128)], 0x4A3B2C1D


def with_zeros(x: Term) -> Term:
    """Two rows, and one that a zero point of 3 makes zeros."""
    return x.part(0, 2, 1).concat(x.const(np.full((2, 1, 4), 3)), axis=1)


def summed_products(x: Term, y: Term) -> Term:
    """A product of matrices with zero points 3 and -2."""
    wide = x.rescale("INT32", in_zp=3).reshape(2, 3, 4, 1) * y.rescale("INT32", in_zp=-2).reshape(2, 1, 4, 5)
    return wide.reduce("sum", 2).reshape(2, 3, 5)


def headroom(x: Term, y: Term, shift: int, scale: int = SCALE) -> Term:
    """A sum of which one operand is scaled, with more or less room below the point."""
    return (x.rescale("INT32", 1 << 30, shift) + y.rescale("INT32", scale, shift)).rescale("INT8", 1 << 30, 61 - shift)


def gated(x: Term, y: Term, shift: int = 0) -> Term:
    """x * sigmoid(y), the second factor with some more bits."""
    return (x.wide() * y.table(SIGMOID).rescale("INT32", 1 << 30, 30 - shift)).rescale("INT8", 1 << 30, 37 + shift)


def above(x: Term, y: Term) -> Term:
    """The larger one: y, and by how much x is larger."""
    return (y.wide() + (x.wide() - y.wide()).clamp(0, 1 << 20)).rescale("INT8")


near(
    "values that no limit is near",
    of("INT8", "INT8", "BOOL", shape=(1, 4, 4, 4)),
    [
        ("headroom(x, y, 10)", "headroom(x, y, 12, SCALE + (1 << 20))", "-128, 75, 0"),
        ("headroom(x.conv(FEW).fits(16), y.conv(FEW).fits(16), 10)", "headroom(y.conv(FEW).fits(16), x.conv(FEW).fits(16), 10)"),
        ("gated(x, y)", "gated(y, x)"),
        ("(x.wide() > y.wide())('select', x, y)", "(x.wide() > y.rescale('INT32', in_zp=1))('select', x, y.clamp(-128, 126))"),
        ("z('select', x, y).clamp(-20, 30)", "z('select', x.clamp(-20, 30), y.clamp(-20, 31))"),
        ("x.made('argmax', makers.extremum(3))", "(~x).made('argmax', makers.extremum(3))"),
    ],
)

# ---- what is undefined without an effect ------------------------------------------------------------

_OPEN = [
    "(x + y)",
    "(x - y)",
    "x.mul(y, 5)",
    "x.mul(y, 31)",
    "x.negate()",
    "x('abs')",
    "x.div(y)",
    "x.div(-1)",
    "x.lsl(y)",
    "x.asr(y)",
    "x.lsr(y)",
    "x.rescale('INT32', 1, 8)",
    "x.rescale('INT32', 0, 30)",
    "x.rescale('INT8', 1 << 30, 30).wide()",
    "x.rescale('INT32', 1 << 14, 4, scale32=False)",
    "x.rescale('INT8', 1 << 14, 4, scale32=False).wide()",
    "x.concat(y, x.max(-5).negate()).reduce('sum')",
    "(x.mul(x, 1) + y.mul(y, 1))",
    "x.rescale('INT8').asr(y.rescale('INT8')).wide()",
    "x.cast('INT16').lsr(y.cast('INT16')).wide()",
    "x.reshape(1, 1, 1)('gather', y.reshape(1, 1)).reshape(1)",
    "x.reshape(1, 1, 1)('scatter', y.reshape(1, 1), x.const([[[7]]])).reshape(1)",
    "x.cast('INT8').reshape(1, 1, 1, 1).conv([[[[127]]]], (1 << 31) - 100).reshape(1)",
    "x.cast('INT16').table(steep(256))",
]
#: What makes a constant of a value v.
_NOTHING = {
    "({v} * 0)": 0,
    "({v} & 0)": 0,
    "({v} | -1)": -1,
    "{v}.max(9).min(9)": 9,
    "{v}.equal(7)('select', x.const(3), x.const(3))": 3,
    "x.const(1, 'BOOL')('select', x.const(3), {v})": 3,
    "{v}.concat(4).part(1)": 4,
    "{v}.rescale('INT8').rescale('INT32', 0, 62)": 0,
    "{v}.cast('BOOL')('logical_and', x.const(0, 'BOOL')).cast('INT32')": 0,
}
for _how, _result in _NOTHING.items():
    near(
        "what is open without an effect",
        _TWO,
        [(f"x.const({_result})", _how.format(v=v)) for v in _OPEN],
        [5, 8, 31, 32, 127, 200],
    )
