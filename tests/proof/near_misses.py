"""Pairs of small graphs that differ in one detail, as a table of text over dtypes and attributes.

A row of the table has an expression, and after " = " others that nearly equal it, apart by " ; ".
Many rows are equalities of whole numbers that bits, rounding, saturation or what TOSA leaves open break.
An input on which a pair differs is searched among limits and thresholds (`witness`).

>>> pair = next(p for p in pairs() if "x.lsl(k).asr(k)" in p.name)
>>> pair.name, witness(pair)[0]
('x = x.lsl(k).asr(k), INT8 k=1', [array([64], dtype=int8)])
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from eqsat.tensor import makers  # noqa: F401 - rows use it
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops.indexing import BILINEAR, NEAREST
from eqsat.tensor.ops.pointwise import DOUBLE_ROUND
from eqsat.tensor.types import Array, DType, Type
from tests.forms import INTEGERS, OPEN, limits, value
from tests.term import Term, chained  # noqa: F401 - rows use it

#: Inputs among which a witness is searched.
_TRIED = 200
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
        names = {k: v for k, v in self.names.items() if k not in ("d", "low", "high", "bits") and len(str(v)) < 40}
        shown = " ".join([self.types[-1].dtype, *(f"{k}={v}" for k, v in names.items())])
        return f"{self.one} = {self.other}, {shown}"

    def graphs(self) -> tuple[TensorGraph, TensorGraph]:
        return self._built(self.one), self._built(self.other)

    def _built(self, text: str) -> TensorGraph:
        g = TensorGraph()
        xs = {n: Term(g, g.add_input(n, t.shape, t.dtype)) for n, t in zip("xyz", self.types, strict=False)}
        g.outputs.append(_value(text, {**self.names, **xs}).n)
        return g

    def inputs(self) -> Iterator[list[Array]]:
        """Inputs at limits: all combinations, or some of them, and elements that differ."""
        if self.where:
            given = zip(_value(f"({self.where},)", self.names), self.types, strict=True)
            yield [np.broadcast_to(np.asarray(v, DType.of(t.dtype).storage), t.shape).copy() for v, t in given]
        rng = np.random.default_rng(zlib.crc32(self.name.encode()))
        columns = [limits(t.dtype, *self.points) for t in self.types]
        rows = list(itertools.product(*columns))
        for k in rng.permutation(len(rows))[:_TRIED]:
            yield [np.full(t.shape, v, DType.of(t.dtype).storage) for v, t in zip(rows[k], self.types, strict=True)]
        for _ in range(_TRIED if any(t.elements > 1 for t in self.types) else 0):
            drawn = zip(columns, self.types, strict=True)
            yield [np.asarray(rng.choice(c, t.shape), DType.of(t.dtype).storage) for c, t in drawn]


def _value(text: str, names: Names) -> Any:
    return eval(text, {**globals(), **names})


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


def _limits(dtype: str) -> Names:
    d = DType.of(dtype)
    return {"d": dtype, "low": d.limits[0], "high": d.limits[1], "bits": d.bits}


def _all(left: Sequence[tuple[str, Any]], known: Names) -> Iterator[Names]:
    """All values of names: of a list each, of a text that begins with "=" what it says in the names before."""
    if not left:
        yield known
        return
    (name, given), *rest = left
    found = _value(given[1:], known) if isinstance(given, str) and given[:1] == "=" else given
    for v in found if isinstance(found, list) else [found]:
        yield from _all(rest, {**known, **(_limits(v) if name == "d" else {name: v})})


def _type(text: str, names: Names) -> Type:
    dtype, _, shape = text.rstrip("]").partition("[")
    return Type(_value(f"({shape or 1},)", names), names.get(dtype, dtype))


def combined(kind: str, inputs: str, table: str, points: str = "", **names: Any) -> list[Pair]:
    """The pairs of a table.

    inputs: their dtypes, each with a shape if that is not [1]. points: numbers in the names, apart by commas.
    names: in the table, the inputs, the points and later names, in all combinations (`_all`); low, high and bits are
    those of d, which without a name is the dtype of the first input. Names that begin with "_" are not in the table.
    A row may end with " @ " and an input at which it differs.
    """
    out = []
    for known in _all(list(names.items()), {} if "d" in names else _limits(re.split(r"\W", inputs)[0])):
        types = tuple(_type(text, known) for text in inputs.split())
        at = tuple(p for v in _value(f"({points},)" if points else "()", known) for p in np.ravel(v).tolist())
        shown = {k: v for k, v in known.items() if k[0] != "_"}
        for row in filter(None, map(str.strip, table.splitlines())):
            text, _, where = row.partition(" @ ")
            one, others = text.split(" = ", 1)
            out += [Pair(kind, one, other, types, shown, at, where) for other in others.split(" ; ")]
    return out


#: {kind: its pairs}.
KINDS: dict[str, list[Pair]] = {}


def near(kind: str, inputs: str, table: str, points: str = "", **names: Any) -> None:
    """Adds the pairs of a table (`combined`) to a kind."""
    known = KINDS.setdefault(kind, [])
    known += [p for p in combined(kind, inputs, table, points, **names) if p not in known]


def pairs() -> Iterator[Pair]:
    """All pairs of all kinds; some turn out to be equal."""
    return itertools.chain.from_iterable(KINDS.values())


# fmt: off
# ---- dtypes and bits ------------------------------------------------------------------------------

near("a CAST that narrows", "d", """
    x = x.cast(n, d)
    x.rescale(n) = x.cast(n)
    x.clamp(*ends) = x.cast(n, d)
    x.wide().max(ends[0]).min(ends[1]).cast(n) = x.wide().max(ends[0]).min(ends[1] + 1).cast(n) ; x.wide().max(ends[0] - 1).min(ends[1]).cast(n)
""", "ends", d=["INT16", "INT32"], n="=['INT8', 'INT16'][: bits // 16]", ends="=DType.of(n).limits")
near("a CAST that narrows", "d", """
    x.wide().min(1).max(0) = x.cast('BOOL', 'INT32')
    x & 1 = x.cast('BOOL', d)
    x.wide() = x.cast('BOOL', 'INT32')
""", d=INTEGERS)
near("shifts there and back", "d", """
    x = x.lsl(k).asr(k) ; x.lsl(k).lsr(k) ; x.asr(k).lsl(k)
    x & (-1 << k) = x.lsr(k - 1).lsl(k - 1)
    x.asr(k) = x.lsr(k)
    x.wide() * (1 << k) = x.lsl(k).wide()
    x.wide().lsl(k) = x.lsl(k).wide()
    x.wide().lsl(k).asr(k) = x.lsl(k).wide().asr(k)
    x.wide().lsr(k) = x.lsr(k).wide()
    x.lsl(k) = x.lsl(k - 1)
""", "1 << bits - 1 - k, high >> k", d=INTEGERS, k="=[1, bits // 2, bits - 2]")
near("shifts there and back", "d", """
    x.wide() & ones = x.lsr(0).wide()
    x.wide().lsl(1) > high // 2 = x.lsl(1).wide() > high // 2
    x.lsl(bits - 1) = x & low
""", "high // 2", d=INTEGERS, ones="=(1 << min(bits, 31)) - 1")
near("an amount that the dtype lacks", "d", """
    x.asr(bits - 1) = x.asr(k)
    x & 0 = x.lsr(k) ; x.lsl(k)
""", d=INTEGERS, k="=sorted({bits, bits + 1, 32, 40, 100, -1})")
near("rounding of a shift", "d", """
    x.asr(k, True) = x.asr(k) ; x.asr(k - 1, True).asr(1, True) ; x.asr(k - 1).asr(1, True) ; x.rescale(d, 1, k)
    x.asr(k) = x.rescale(d, 1 << 31 - k, 31)
""", "1 << k - 1, 3 << k - 1", d=INTEGERS, k=[2, 3, 5, 7])
near("a variable shift", "d d", """
    x.asr(y, True) = x.asr(y)
    x.asr(y) = x.lsr(y)
    x.lsl(y) = y.lsl(x)
    x.const(64).asr(x) = x.const(63).asr(x)
    x.const(-1) = x.const(-1).asr(x)
    x = x.lsl(y).asr(y)
    x.lsl(y) = x.lsl(y & (bits - 1))
""", "bits, 3", d=INTEGERS)
near("bits", "d d", """
    x & y = x | y ; x ^ y
    x | y = x ^ y
    ~x = x.negate() ; x ^ high
    x = x & high ; x | 1
    x & -2 = x.asr(1)
""", d=INTEGERS)
near("a variable shift in another dtype", "d d", """
    x.cast(w).lsl(y.cast(w)) = x.lsl(y).cast(w)
    x.cast(w).lsl(y.cast(w)).cast(d) = x.lsl(y)
    (x & 3).cast(w).lsl(y.cast(w)) = (x & 3).lsl(y).cast(w)
    x.cast(w).lsr(y.cast(w)) = x.lsr(y).cast(w)
    x.cast(w).lsr(y.cast(w)).cast(d) = x.lsr(y)
    (x & 3).cast(w).lsr(y.cast(w)) = (x & 3).lsr(y).cast(w)
    x.cast(w).asr(y.cast(w)) = x.asr(y).cast(w)
    x.cast(w).asr(y.cast(w)).cast(d) = x.asr(y)
    (x & 3).cast(w).asr(y.cast(w)) = (x & 3).asr(y).cast(w)
""", "7, 8, 15", d=["INT8", "INT16"], w="=['INT16', 'INT32'][bits // 16 :]")
near("bits", "BOOL BOOL", """
    x('logical_and', y) = x('logical_or', y) ; x('logical_xor', y)
    x('logical_or', y) = x('logical_xor', y)
""")
near("bits", "INT32", "x('clz') = x.asr(k)('clz') - k ; (x | k)('clz')", k=[1, 3, 31])

# ---- products and sums ----------------------------------------------------------------------------

SHIFTS = [1, 2, 15, 30, 31, 32, 47, 61, 62]
near("MUL with a shift", "INT32 INT32", """
    x.mul(y, s) = x.mul(y, s).min(c) ; x.mul(y, s).max(-c)
    x.mul(x, s) = x.mul(x, s).min(c)
    x.const(0) > 0 = x.mul(y, s) > c
""", "1 << 30", s=SHIFTS, c="=[c for c in ((1 << 62 >> s) - 1, 1 << 61 >> s, (1 << 61 >> s) - 1, 1 << 60 >> s) if 0 < c < 1 << 31]")
near("MUL with a shift", "INT32 INT32", """
    x.mul(y, s) = x.mul(y, s - 1)
    x.mul(12345, s) = x.mul(12346, s)
    x.mul(3, s) = x.mul(6, s + 1)
    x.mul(y, s) = x.mul(y, s - 1).asr(1, True)
    x.mul(y, s).mul(77, s) = x.mul(77, s).mul(y, s)
    x.mul(y, s) = x * y
""", "1 << 30, 1 << 15, 3", s=SHIFTS)
near("MUL with a shift", "d d", """
    x * x = (x * x).min(low * low - 1)
    x * y = (x * y).min(low * low - 1) ; (x * y).max(low * high + 1)
    x.wide().mul(y.wide(), 15) = (x * y).asr(15)
    x * y = (x * y).cast('INT16').wide()
""", d=["INT8", "INT16"])
near("operands that may exceed their dtype", "INT32 INT32", """
    (x + high).mul(y + high, s) = (x + high).mul(y + high, s).min(5)
    (x + high).mul(y - high, s) = (x + high).mul(y - high, s).max(-5)
""", "-high, 1 << 30", s=[20, 31])
near("operands that may exceed their dtype", "INT32[n]", "x.mul(x, 1).reduce('sum') = x.mul(x, 1).reduce('sum').min(99)", "50", n=[4, 8])
near("falling functions of a maximum", "d[1,2] d[1,2]", """
    x.wide().max(y.wide()).mul(c, s) = x.wide().mul(c, s).max(y.wide().mul(c, s))
    x.wide().min(y.wide()).mul(c, s) = x.wide().mul(c, s).min(y.wide().mul(c, s))
    x.wide().max(y.wide()).mul(x.const([[-c, c]], 'INT32'), s) = x.wide().mul(x.const([[-c, c]], 'INT32'), s).max(y.wide().mul(x.const([[-c, c]], 'INT32'), s))
    x.reduce('max', 1).wide().mul(c, s) = x.wide().mul(c, s).reduce('max', 1)
""", d=INTEGERS, c=[-3, -(1 << 20)], s=[1, 2, 20])
near("sums that overflow on the way", "INT32 INT32", """
    x = x + c - c ; x - c + c
    x + y + c = x + c + y
    x >= c = x - c >= 0
    x > c = x >= x.const(c) + 1
""", "c, -c", c=[1 << 30, (1 << 31) - 1, 12345])
near("sums that overflow on the way", "INT32 INT32", """
    x = (x * (1 << s)).asr(s) ; (x * (s + 2)).div(s + 2)
    x.asr(s) = (x.asr(s) * 3).div(3) + (x - x)
    (x + y) * (s + 2) = x * (s + 2) + y * (s + 2)
    x * (1 << s) = chained([x] * (s + 1))
""", "1 << 31 - s", s=[1, 2, 8])
near("sums that overflow on the way", "INT32 INT32 INT32", """
    x - y = (y - x).negate()
    x + y + z = x + (y + z)
    x.max(y) = x + y - x.min(y)
    x - y = x + y.negate()
    x = x + y - y
    x > y = x - y > 0
    x * y * z = x.mul(y, 1) * z
    x.max(y) + z = (x + z).max(y + z)
""")
near("reductions", "INT32[n]", """
    x.reduce('sum') = x.reverse().reduce('sum') ; chained(x.parts()[1:] + x.parts()[:1]) ; x.part(0, n - 1).reduce('sum')
    x.reduce('sum') = chained([v.asr(1) for v in x.parts()]) * 2 ; x.concat(x.const(1)).reduce('sum') - 1 ; x.const(1).concat(x).reduce('sum') - 1
""", n=[2, 3, 4])
near("reductions", "d[n]", """
    x.reduce('max') = x.reduce('min') ; x.part(1, n - 1).reduce('max') ; x.concat(0).reduce('max') ; x.concat(low + 1).reduce('max')
    x.reduce('min') = (~x).reduce('max') ; x.negate().reduce('max').negate()
""", d=INTEGERS, n=[2, 3, 4])
near("reductions", "BOOL[_n]", "x.reduce('any') = x.reduce('all')", _n=[2, 3, 4])
near("reductions", "INT32[2,2]", """
    x.reduce('sum', 0).reshape(2) = x.reduce('sum', 1).reshape(2)
    x.reduce('max', 0).reshape(2) = x.reduce('max', 1).reshape(2)
    x.reduce('sum', 0).reduce('sum', 1) = x.reduce('sum', 1).reduce('sum', 0)
    x.reduce('max', 0).reduce('min', 1) = x.reduce('min', 1).reduce('max', 0)
""")
near("the lowest value", "d d", """
    x = x.negate().negate()
    x.wide().negate() = x.negate().wide()
    x.wide().max(x.const(0, 'INT32') - x.wide()) = x.wide()('abs')
    x.wide()('abs').rescale('INT8') = x.wide()('abs').cast('INT8')
    x.wide() = x.wide().max(low + 1)
    x.wide().max(y.wide()) = x.negate().wide().min(y.negate().wide()).negate()
""", d=INTEGERS)
near("the lowest value", "INT8", """
    x.negate(a, b) = x.negate(a + (1 if a < 127 else -1), b) ; x.negate(b, a) ; x.rescale('INT8', in_zp=a).negate(0, b)
    x.negate(a, b) = (x.const(a + b, 'INT32') - x.wide()).cast('INT8')
""", "a, b", a=[-128, 0, 5, 127], b=[0, -128, 127])
near("the lowest value", "INT32", """
    ~x + 1 = x.negate()
    x.const(0) - x = ~(x - 1)
    x.const(5) = (x.negate() & 0) + 5
""")
near("signs of INTDIV", "INT32 INT32", """
    x.div(c) = x.asr(k) ; x.asr(k, True) ; x.div(-c) ; x.div(c + 1)
    x.div(c) * c = x
    x.div(c) = x.negate().div(-c) ; (x + c).div(c) - 1 ; x.max(0).div(c) + x.min(1).div(c)
""", "c, c // 2, c * (c + 1)", c=[2, 3, 4, 7, 1 << 20], k=2)
near("signs of INTDIV", "INT32 INT32", """
    x.const(1) = x.div(x)
    ~x + 1 = x.div(-1)
    x.const(0) - x = x.div(-1)
    x.div(y) = y.div(x) ; x.negate().div(y.negate()) ; x.negate().div(y).negate()
    x.const(0) = x.const(0).div(x) ; x.div(0) & 0
    x.div(y.max(1)) = x.div(y)
""", "5, 7")

# ---- RESCALE --------------------------------------------------------------------------------------


def ties(m: int, s: int) -> list[int]:
    """Values at which a scale changes its result."""
    return [((v << s) + (1 << s - 1)) // max(m, 1) for v in (-129, -128, -2, -1, 0, 1, 126, 127, 300)]


near("a scale of RESCALE", "d", """
    x.rescale(to, m, s) = x.rescale(to, m, s + 1) ; x.rescale(to, m - (1 << 20), s) ; x.rescale(to, m, s, rounding_mode=DOUBLE_ROUND)
    x.rescale('INT8', m, s, out_zp=-3) = x.rescale('INT8', m, s, out_zp=-2)
    x.rescale(to, m, s) = x.rescale('INT8', m, s).rescale(to)
    x.rescale('INT8', m, s) = x.rescale('INT32', m, s).cast('INT8') ; x.rescale('INT16', m, s - 4).rescale('INT8', 1 << 30, 34)
""", "ties(m, s)", d=INTEGERS, to="='INT8' if d == 'INT32' else d", m=[1 << 30, (1 << 31) - 1, 1_518_500_250], s=[31, 33, 38, 50])
near("RESCALE beyond its shift", "d", """
    x.asr(s, True) = x.rescale(d, 1, s)
    x & 0 = x.rescale(d, 0, s)
    x.rescale('INT32', 4, s + 2) = x.rescale('INT32', 1, s)
    x.const(7, 'INT8') = x.rescale('INT8', 0, s, out_zp=7)
    x.const(0, 'INT8') = x.rescale('INT8', 0, s, in_zp=127 if d == 'INT8' else 0) ; x.rescale('INT8', 0, s, input_unsigned=d != 'INT32')
""", "1 << s - 1, -(1 << s - 1), 1 << s, -(1 << s)", d=INTEGERS, s="={8: [2, 6, 7], 16: [2, 9, 15], 32: [8, 20, 30, 31]}[bits]")
near("RESCALE of 16 bits", "d", """
    x.rescale('INT32', m << 16, s + 16) = x.rescale('INT32', m, s, scale32=False)
    x.rescale('INT32', m, s + 1, scale32=False) = x.rescale('INT32', m, s, scale32=False)
    x.rescale('INT8', m << 16, s + 16) = x.rescale('INT8', m, s, scale32=False)
    x.rescale('INT8', m, s, scale32=False).wide() = x.rescale('INT32', m, s, scale32=False).clamp(-128, 127)
    x.const(0) = x.rescale(d, m, s, scale32=False) & 0
""", "((1 << 31) << s) // m, -((1 << 31) << s) // m, 1 << s", d=["INT16", "INT32"], m=[1, 1 << 14, 32767], s=[2, 7, 14, 20])
TWICE = [1 << 30, 3 << 28, 5 << 27]
#: Multipliers, shifts, and other attributes; TOSA has no unsigned INT32.
SCALES = [
    (TWICE, [31, 33, 30], {}),
    (TWICE, [33, 31, 32], {"rounding_mode": DOUBLE_ROUND}),
    (TWICE, [34, 33, 32], {"rounding_mode": DOUBLE_ROUND}),
    ([1 << 14, 3 << 12, 5 << 11], [15, 14, 14], {"scale32": False}),
    (TWICE, [31, 30, 30], {"output_unsigned": True}),
    (TWICE, [31, 30, 31], {"input_unsigned": True}),
]
near("RESCALE per channel", "d[2,_n]", """
    x.rescale('INT8', m, s, **how).reverse(1) = x.reverse(1).rescale('INT8', m, s, **how)
    x.rescale('INT8', m, s, **how) = x.rescale('INT8', m[::-1], s[::-1], **how) ; x.rescale('INT8', m[:1] * len(m), s, **how)
    x.rescale('INT8', m, s, **how) = x.rescale('INT8', m, s[1:] + s[:1], **how) ; x.rescale('INT8', m[0], s[0], **how)
    x.rescale('INT8', m, s, **how).part(0) = x.rescale('INT8', m, s, **how).part(1)
""", "99", d=INTEGERS, _n=[2, 3], _scale="=SCALES[: 4 if bits == 32 else 6]", m="=[_scale[0][:_n]]", s="=[_scale[1][:_n]]", how="=_scale[2]")
near(
    "RESCALE per channel", "INT8[1,256]",
    "x.rescale('INT8', m, [34] * 256, **how) = x.table([min(max((v % of * m[v + 128] + (1 << 33)) >> 34, -128), 127) for v in range(-128, 128)])",
    "99", m=[[(7 * k + 3) << 20 for k in range(256)]], how={"input_unsigned": True}, of=256,
)
near("a zero point of RESCALE", "INT8", """
    x.rescale('INT32', 1 << 30, 20, in_zp=zp) = x.rescale('INT32', 1 << 30, 20, in_zp=zp + (1 if zp < 127 else -1))
    x.rescale('INT8', 1 << 30, 31, in_zp=zp) = x.rescale('INT8', 1 << 30, 31, out_zp=-zp // 2)
    x.rescale('INT8', in_zp=zp, out_zp=zp) = x.rescale('INT8', in_zp=zp).rescale('INT8', out_zp=zp)
    x.rescale('INT8', 1 << 30, 31, in_zp=zp) = x.rescale('INT8', 1 << 30, 31, in_zp=zp, input_unsigned=True)
    x.rescale('INT8', 1 << 30, 31, in_zp=zp) = x.rescale('INT8', 1 << 30, 31, in_zp=zp, output_unsigned=True)
""", "zp", zp=[-128, -1, 5, 127])
near("sums of INT48", "INT16[1,1,1,2]", """
    summed(x, c, s) = summed(x, c + (1 << s - 14), s) ; summed(x, c, s + 1) ; summed(x, c, s, (100, -76))
    summed(x, c, s) = summed(x, c, s, dtype='INT32').rescale('INT8') ; summed(x, c, s, dtype='INT32').cast('INT8')
    x.const([[[[3]]]], 'INT32') = (summed(x, c, s, dtype='INT32') & 0) + 3
""", c=[0, -1, 1 << 30, (1 << 31) - 1, (1 << 44), (1 << 46) - 1], s=[14, 15, 30, 40])


def summed(x: Term, bias: int, shift: int, weights: Sequence[int] = (100, -77), dtype: str = "INT8") -> Term:
    """A convolution of INT16 to INT48 and its RESCALE."""
    w, b = x.const([[[weights]]], "INT8"), x.const([bias], "INT48")
    return x.made("conv2d", makers.conv("INT16"), w, b).rescale(dtype, 1 << 14, shift, scale32=False)


# ---- limits, comparisons, tables ------------------------------------------------------------------

near("a limit of CLAMP", "d d", """
    x.clamp(*ends) = x.clamp(ends[0], min(ends[1] + 1, high)) ; x.clamp(max(ends[0] - 1, low), ends[1]) ; x
    x.clamp(*ends) = x.wide().max(ends[0]).min(ends[1] + 1).rescale(d) ; x.wide().min(ends[0]).max(ends[1]).rescale(d)
    x.clamp(*ends) = x.clamp(*ends).negate().negate().clamp(ends[0], ends[1]) if ends[0] > low else x.negate().negate()
    (x.wide() + y.wide()).clamp(*ends) = x.clamp(*ends).wide() + y.clamp(*ends).wide()
""", "ends", d=["INT8", "INT16"], ends="=[(low, high - 1), (low + 1, high), (-1, 1), (0, high), (5, 5)]")
near("comparisons", "d d", """
    x.wide() > y.wide() = x.wide() >= y.wide() ; y.wide() > x.wide() ; ~(y.wide() > x.wide())
    x.wide() > y.wide() = x.wide() >= y.wide() + 1 ; x.wide() - 1 >= y.wide()
    x.wide().equal(y.wide()) = x.wide() >= y.wide() ; x.asr(1).wide().equal(y.asr(1).wide())
    x.wide() >= y.wide() = x.asr(1).wide() >= y.asr(1).wide() ; x.lsl(1).wide() >= y.lsl(1).wide()
    x.wide() > c = x.wide() >= c
    x.wide().equal(c) = x.wide() >= c
    x.wide() > c = x.wide().max(c) > c - 1 if c > low else x.wide() >= x.wide()
""", "c", d=INTEGERS, c="=[0, 77, low, high]")
near("SELECT", "BOOL dtype dtype", "x('select', y, z) = x('select', z, y) ; (~x)('select', y, z) ; y ; x('select', y, y)", dtype=["BOOL", *INTEGERS])
near("SELECT", "BOOL dtype dtype", "x('select', y, z) = x('logical_and', y) ; x('logical_xor', y)", dtype="BOOL")
near("SELECT", "BOOL dtype dtype", """
    y.wide().max(z.wide()) = (y.wide() > z.wide())('select', z.wide(), y.wide())
    y.wide()('abs') = (y.wide() > 0)('select', y.wide(), y.const(0, 'INT32') - y.wide())
    y = z.wide().equal(0)('select', z, y)
    x('select', y, z).wide().negate() = x('select', y.negate(), z.negate()).wide()
""", dtype=INTEGERS)
near("SELECT", "BOOL dtype dtype", """
    x('select', y, z) = x.cast(y.dtype).wide() * y.wide() + (~x).cast(y.dtype).wide() * z.wide()
""", dtype="INT32")
near("SELECT", "BOOL BOOL", """
    fixed(x('logical_or', y), 3, 7) = fixed(x, 3, 7).max(fixed(y, 3, 7)) ; fixed(x('logical_and', y), 3, 7)
    fixed(x('logical_and', y), 3, 7) = fixed(x, 3, 7).min(fixed(y, 3, 7)) ; fixed(x('logical_and', y), 7, 3)
""")


def fixed(condition: Term, one: int, other: int) -> Term:
    """One of two numbers."""
    return condition("select", *(condition.const(v, "INT32") for v in (one, other)))


RISING, LINE = [v // 2 for v in range(-128, 128)], [60 * v for v in range(-256, 257)]


def changed(entries: Sequence[int], k: int, by: int = 1) -> list[int]:
    return [v + by * (i == k) for i, v in enumerate(entries)]


def steep(k: int) -> list[int]:
    """Entries with one slope that 16 bits do not hold."""
    return [-32768 * (i == k) + 32767 * (i == k + 1) for i in range(513)]


near("one entry of a TABLE", "INT8[2]", """
    x.table(RISING) = x.table(changed(RISING, k))
    x.reduce('max').table(RISING) = x.table(changed(RISING, k, 3)).reduce('max')
    x.reduce('max').table(RISING[::-1]) = x.table(RISING[::-1]).reduce('max')
    x.clamp(-5, 5).table(RISING) = x.clamp(-5, 5).table(changed(RISING, 128 + k % 6))
""", "k - 128", k=[0, 1, 127, 128, 129, 254, 255])
near("one entry of a TABLE", "INT16", """
    x.table(LINE) = x.table(changed(LINE, k))
    x.table(LINE).rescale('INT16', 1 << 30, 37) = x.table(changed(LINE, k)).rescale('INT16', 1 << 30, 37)
    x.const(0, 'INT32') = x.table(steep(min(k, 511))) & 0
    x.table([0] * 513) = x.clamp(-100, 100).table(steep(min(k, 511))) * 0
""", "128 * k - 32768 + 64, 128 * k - 32768", k=[0, 1, 255, 256, 257, 511, 512])
near("ties of ARGMAX", "d[n,1]", """
    x.argmax() = x.const(n - 1, 'INT32', (1,)) - x.reverse().argmax() ; x.clamp(low, 5).argmax() ; x.asr(1).argmax()
    x.argmax() = x.part(1, n - 1).concat(x.part(0)).argmax() ; x.part(0, n - 1).argmax() ; x.negate().argmax()
    x.argmax() = (~x).argmax() ; x.rescale('INT8', 1 << 30, 31).argmax()
""", d=["INT8", "INT16"], n=[2, 3, 4])

# ---- windows and positions ------------------------------------------------------------------------

W = np.array([[1, -2], [3, 40]]).reshape(1, 2, 2, 1)
#: One more in one weight.
ONE_MORE = W + np.array([[0, 0], [0, 1]]).reshape(1, 2, 2, 1)
SQUARE, BOTH = np.array([[1, 2], [3, 4]]).reshape(2, 1, 1, 2), np.arange(1, 5).reshape(1, 1, 2, 2)
near("a window", "d[1,3,3,1]", """
    x.conv(W) = x.conv(W, 1) ; x.conv(W[:, ::-1]) ; x.conv(W.transpose(0, 2, 1, 3)) ; x.conv(ONE_MORE)
    x.conv(W, pad=(1, 0, 1, 0)) = x.conv(W, pad=(0, 1, 0, 1)) ; x.framed(1).conv(W)
    x.conv(W) = x.conv(W, pad=(1, 1, 1, 1)).part(0, 2, 1).part(0, 2, 2)
    x.conv(W, dilation=(2, 2)) = x.conv(W).part(0, 1, 1).part(0, 1, 2)
    x.conv(W, pad=(1, 0, 1, 0), stride=(2, 2)) = x.conv(W, pad=(0, 1, 0, 1), stride=(2, 2))
    x.conv(W, op='transpose_conv2d', out_pad=(0, 1, 0, 0)) = x.conv(W, op='transpose_conv2d', out_pad=(1, 0, 0, 0))
    x.conv(W, op='transpose_conv2d', out_pad=(0, -1, 0, 0)) = x.conv(W, op='transpose_conv2d', out_pad=(-1, 0, 0, 0))
    x.conv(W, op='transpose_conv2d', stride=(2, 2)) = x.conv(W[:, ::-1], op='transpose_conv2d', stride=(2, 2))
""", d=["INT8", "INT16"])
near("a window", "d[1,1,1,2]", """
    x.conv(SQUARE) = x.conv(SQUARE.transpose(3, 1, 2, 0))
    x.conv(BOTH, op='depthwise_conv2d') = x.conv(BOTH.swapaxes(2, 3), op='depthwise_conv2d')
    x.conv(SQUARE) = x.conv(SQUARE).reverse(3)
""", d=["INT8", "INT16"])
near("a window", "d[1,2,2] d[1,2,2]", "x.matmul(y) = y.matmul(x) ; x.matmul(y('transpose', perms=(0, 2, 1))) ; x.reverse(2).matmul(y)", d=["INT8", "INT16"])
near("pools", "d[1,3,3,1]", """
    x.average(2, 2, pad=(1, 0, 1, 0)) = x.framed(0).average(2, 2) ; x.average(2, 2, pad=(0, 1, 0, 1))
    x.average(2, 1) = x.average(1, 1).part(0, 2, 1)
    x.average(3, 3) = x.average(3, 1).average(1, 3) ; x.wide().reduce('sum', 1).reduce('sum', 2).div(9).rescale(d)
    x.average(2, 2) = quarter(x)
    x.largest(2, 2, pad=(1, 0, 1, 0)) = x.framed(0).largest(2, 2) ; x.framed(low + 1).largest(2, 2)
    x.largest(3, 3) = x.average(3, 3) ; x.largest(2, 3).part(0, 1, 1)
    x.largest(2, 2).negate() = x.negate().largest(2, 2)
    x.largest(2, 2) = x.largest(2, 2, pad=(1, 1, 1, 1)).part(0, 2, 1).part(0, 2, 2)
""", d=["INT8", "INT16"])
near("a zero point of a window", "INT8[1,3,3,1]", """
    x.conv(W, in_zp=zp) = x.conv(W, in_zp=zp + step)
    x.conv(W, w_zp=zp) = x.conv(W, w_zp=zp + step)
    x.conv(W, in_zp=zp) = x.conv(W, w_zp=zp)
    x.conv(W, in_zp=zp, pad=(1, 0, 1, 0)) = x.framed(zp + step).conv(W, in_zp=zp)
    x.average(2, 2, in_zp=zp) = x.average(2, 2, in_zp=zp + step)
    x.average(2, 2, out_zp=zp) = x.average(2, 2, out_zp=zp + step)
    x.average(2, 2, in_zp=zp, out_zp=zp, pad=(1, 0, 1, 0)) = x.framed(zp).average(2, 2, in_zp=zp, out_zp=zp)
    x.average(3, 3, in_zp=zp, out_zp=zp) = x.average(3, 3)
    x.reshape(1, 3, 3).matmul(x.reshape(1, 3, 3), zp, 1) = x.reshape(1, 3, 3).matmul(x.reshape(1, 3, 3), 1, zp)
""", zp=[-128, 3, 126], step=1)


def quarter(x: Term) -> Term:
    """The average of four elements, rounded down."""
    rows = x.wide().part(0, 2, 1) + x.wide().part(1, 2, 1)
    return (rows.part(0, 2, 2) + rows.part(1, 2, 2)).asr(2).rescale(x.dtype)


near("positions", "d[1,3,1] INT32[1,1] d[1,1,1]", """
    x('gather', y) = x('gather', y.max(1))
    x('gather', y.max(0).min(2)) = x('gather', y)
    z & 0 = x('gather', y) & 0
    x.const([[[5]]]) = x.const([[[5], [5], [5]]])('gather', y)
    x('gather', y) = x.reverse(1)('gather', y)
    x('gather', y & 1) = x('gather', y)
    x('scatter', y, z) = x
    x = x('scatter', y, x('gather', y))
    z = x('scatter', y, z)('gather', y)
    x & 0 = x('scatter', y, z) & 0
    x.rows(1) = x('gather', x.const([[0]], 'INT32'))
    x.rows(2) = x('gather', x.const([[3]], 'INT32'))
    z.concat(x.rows(1, 2), axis=1) = x('scatter', x.const([[1]], 'INT32'), z)
    x('scatter', y, z).rows(0) = x.rows(0)
""", "0, 1, 2, 3", d=INTEGERS)
near("positions", "d[1,3,1] INT32[1,2] d[1,2,1]", """
    x('gather', y) = x('gather', y.reverse(1))
    x('scatter', y, z) = x('scatter', y, z.reverse(1))
    x('scatter', y.rows(0), z.rows(0))('scatter', y.rows(1), z.rows(1)) = x('scatter', y, z)
    x('scatter', y.rows(0), x('gather', y.rows(0))) = x('scatter', y, x('gather', y))
    x & 0 = x('scatter', y, z) & 0
    z.rows(0).concat(x.rows(1, 2), axis=1) = x('scatter', x.const([[0, 0]], 'INT32'), z)
""", "0, 1, 2, 3", d=INTEGERS)
near("a grid of RESIZE", "d[1,3,3,1]", """
    x.resize(mode, (2, 1, 2, 1), (0, 0), (0, 0)) = x.resize(mode, (2, 1, 2, 1), (-1, 0), (-1, 0)) ; x.resize(mode, (4, 2, 4, 2), (1, 1), (1, 1))
    x.resize(mode, (2, 1, 2, 1), (0, 0), (1, 1)) = x.reverse(1).resize(mode, (2, 1, 2, 1), (0, 0), (1, 1)).reverse(1)
    x.resize(mode, (4, 2, 4, 2), (1, 1), (1, 1)) = x.resize(mode, (4, 2, 4, 2), (1, 0), (1, 0))
    x.resize(mode, (3, 1, 3, 1), (-1, -1), (1, 1)) = x.resize(mode, (3, 1, 3, 1), (0, -1), (2, 1))
    x.resize(mode, (2, 2, 2, 2), (0, 0), (0, 0)) = x.resize(mode, (2, 2, 2, 2), (1, 0), (1, 0))
    x.resize(mode, (2, 1, 4, 2), (0, 1), (0, 1)) = x.resize(mode, (4, 2, 2, 1), (1, 0), (1, 0))
    x.resize(mode, (4, 1, 4, 1), (2, 2), (2, 2)) = x.resize(mode, (4, 1, 4, 1), (1, 1), (1, 1))
""", d=["INT8", "INT16"], mode=[NEAREST, BILINEAR])
near("movements", "d[2,3] d[2,3]", """
    x.concat(y) = y.concat(x)
    x.part(0, 2, 1) = x.part(1, 2, 1)
    x.reverse(0) = x.reverse(1)
    x.reshape(3, 2) = x('transpose', perms=(1, 0))
    x('tile', multiples=(2, 1)) = x.concat(x.reverse(0))
    x('tile', multiples=(1, 2)) = x.reshape(2, 3, 1)('tile', multiples=(1, 1, 2)).reshape(2, 6)
    x.pad((1, 0, 0, 0), 0) = x.pad((1, 0, 0, 0), 1) ; x.pad((0, 1, 0, 0), 0)
""", d=["BOOL", *INTEGERS])

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
for _inputs, _table in (
    ("INT8[1,8,8,64]", """
        x.conv(WIDE).fits(BITS).clamp(-40, 40) = x.conv(WIDE).fits(BITS) @ aligned(WIDE[3, 0, 0])
        x.conv(WIDE).min(9 * 128 * 80).fits(BITS) = x.conv(WIDE).fits(BITS) @ aligned(WIDE[3, 0, 0])
        x.conv(WIDE).rescale('INT16', 1 << 30, 31).rescale('INT8', 1 << 30, 38) = x.conv(WIDE).rescale('INT32', 1 << 30, 31).cast('INT16').rescale('INT8', 1 << 30, 38) @ largest_sum(WIDE)
        in_halves(x, 'INT32') = in_halves(x, 'INT16') @ np.append(largest_sum(WIDE[..., :32]), np.zeros(32))
    """),
    ("INT8[1,7,7,8]", "x.conv(DEEP, op='depthwise_conv2d').fits(18).clamp(-40, 40) = x.conv(DEEP, op='depthwise_conv2d').fits(18) @ aligned(DEEP[..., 0])"),
    ("INT8[1,5,96]", "x.matmul(x.const(MATRIX)).fits(19).clamp(-38, 38) = x.matmul(x.const(MATRIX)).fits(19) @ aligned(MATRIX[0, :, 1])"),
    ("INT8[1,16,9,9]", "windowed(x).clamp(-40, 40) = windowed(x) @ np.tile(aligned(WINDOW[1]).transpose(2, 0, 1), (1, 3, 3))[None]"),
    ("INT8[1,1,1,64]", "x.conv(WIDE[:1], excess()).rescale('INT16') = x.conv(WIDE[:1], excess()).cast('INT16') @ aligned(WIDE[0, 0, 0])"),
    ("INT8[1,3,3,4]", """
        x.conv(FEW, 100).fits(20) = x.conv(FEW, 101).fits(20) @ drawn(1873, 1, 3, 3, 4)
        x.conv(FEW).rescale('INT8', 1 << 30, 39) = x.conv(FEW, 1).rescale('INT8', 1 << 30, 39)
    """),
    ("INT8[1,3,3,1]", """
        x.conv(FEW[..., :1], pad=(1, 0, 1, 0)).fits(20) = x.conv(FEW[..., :1], pad=(1, 0, 1, 0), in_zp=1).fits(20) @ drawn(132, 1, 3, 3, 1)
        x.conv(FEW[..., :1], pad=(1, 0, 1, 0), in_zp=-4).fits(20) = x.framed(-3).conv(FEW[..., :1], in_zp=-3).fits(20) @ drawn(6, 1, 3, 3, 1)
    """),
    ("INT8[1,6,2,2]", "x.table(DIPPED).reduce('max', 1).clamp(-100, 100) = x.table(DIPPED).pad((0, 0, 0, 1, 0, 0, 0, 0), -50).reduce('max', 1).clamp(-100, 100) @ 77"),
    ("INT16 INT16", "(x.wide() + y.wide()).rescale('INT16', 1 << 30, 31) = (x.wide() + y.wide()).rescale('INT16').rescale('INT16', 1 << 30, 31)"),
):
    near("sums near their extremes", _inputs, _table)


def windowed(x: Term) -> Term:
    """A strided convolution of what was moved."""
    return x("transpose", perms=(0, 2, 3, 1)).conv(WINDOW, pad=(1, 1, 1, 1), stride=(2, 2), in_zp=5).fits(19)


def excess() -> int:
    """The bias with which the largest sum leaves INT16 by one."""
    return (1 << 15) - int(WIDE[0, 0, 0] @ aligned(WIDE[0, 0, 0]))


near("values that no limit is near", "INT16[1,4,4,4]", """
    chosen(~(x.const(12345, 'INT32') > x.wide()), x) = chosen(x.wide() > 12345, x) @ 12345
    chosen(x.wide().equal(-777), x) = x.clamp(-5, 20000) @ -777
    chosen(x.rescale('INT32', 1 << 30, 28) >= 4 * 4321, x) = chosen(x.rescale('INT32', 1 << 30, 28) > 4 * 4321, x) @ 4321
    chosen((x * x).equal(9241**2), x) = x.clamp(-5, 20000) @ 9241
    (lambda y: chosen(y.wide().equal(4000), y))(x('transpose', perms=(0, 3, 1, 2)))('transpose', perms=(0, 2, 3, 1)) = x.clamp(-5, 20000) @ 4000
    chosen((x.wide() & 0x7FFF).equal(0x5A5A), x) = x.clamp(-5, 20000) @ 0x5A5A
    x.concat(odd(x), axis=1) = odd(x).concat(x, axis=1) @ -4321
    x.concat(odd(x), axis=1).part(0, 4, 1) = x.concat(odd(x), axis=1).part(4, 4, 1) @ -4321
""")
near("values that no limit is near", "INT16[1,4,4,4] INT16[1,4,4,4] INT16[1,4,4,4]", """
    chosen(met((x, -4321), (y, 1234)), x) = x.clamp(-5, 20000) @ -4321, 1234, 0
    chosen(met((x, -4321), (y, 1234), (z, 99)), x) = x.clamp(-5, 20000) @ -4321, 1234, 99
    met((x, 311), (y, -2047), (z, 9000))('select', y, x) = x @ 311, -2047, 9000
    met((x, 777))('select', y, z) = met((x, 777))('select', z, z) @ 777, 1, 2
    chosen((x.wide() > 3000)('logical_and', y.rescale('INT32', 1 << 30, 31) > -1250), x) = chosen((x.wide() > 3000)('logical_and', y.rescale('INT32', 1 << 30, 31) >= -1250), x) @ 3001, -2500, 0
    chosen(x.wide() > y.wide(), x) = chosen(x.wide() >= y.wide(), x) @ 5000, 5000, 0
""")
near("values that no limit is near", "INT8[1,4,4,4] INT8[1,4,4,4] INT8[1,4,4,4]", """
    met((x, 50), (y, 61), (z, -72))('select', y.clamp(-9, 9), x).clamp(-100, 100) = x.clamp(-100, 100) @ 50, 61, -72
""")

SIGMOID, SCALE = [int(127 / (1 + np.exp(-v / 30))) for v in range(-128, 128)], 0x4A3B2C1D


def with_zeros(x: Term) -> Term:
    """Two rows, and one that a zero point of 3 makes zeros."""
    return x.part(0, 2, 1).concat(x.const(np.full((2, 1, 4), 3)), axis=1)


def summed_products(x: Term, y: Term) -> Term:
    """A product of matrices with zero points 3 and -2."""
    wide = x.rescale("INT32", in_zp=3).reshape(2, 3, 4, 1) * y.rescale("INT32", in_zp=-2).reshape(2, 1, 4, 5)
    return wide.reduce("sum", 2).reshape(2, 3, 5)


def centred(x: Term, axis: int) -> Term:
    """x without the maximum along an axis, as softmax has it: one value before it is repeated."""
    wide, most = (v.rescale("INT32", in_zp=3) for v in (x, x.reduce("max", axis)))
    return wide - most


def headroom(x: Term, y: Term, shift: int, scale: int = SCALE) -> Term:
    """A sum of which one operand is scaled, with more or less room below the point."""
    return (x.rescale("INT32", 1 << 30, shift) + y.rescale("INT32", scale, shift)).rescale("INT8", 1 << 30, 61 - shift)


def gated(x: Term, y: Term, shift: int = 0) -> Term:
    """x * sigmoid(y), the second factor with some more bits."""
    return (x.wide() * y.table(SIGMOID).rescale("INT32", 1 << 30, 30 - shift)).rescale("INT8", 1 << 30, 37 + shift)


def above(x: Term, y: Term) -> Term:
    """The larger one: y, and by how much x is larger."""
    return (y.wide() + (x.wide() - y.wide()).clamp(0, 1 << 20)).rescale("INT8")


near("values that no limit is near", "INT8[1,4,4,4] INT8[1,4,4,4] BOOL[1,4,4,4]", """
    headroom(x, y, 10) = headroom(x, y, 12, SCALE + (1 << 20)) @ -128, 75, 0
    headroom(x.conv(FEW).fits(16), y.conv(FEW).fits(16), 10) = headroom(y.conv(FEW).fits(16), x.conv(FEW).fits(16), 10)
    gated(x, y) = gated(y, x)
    (x.wide() > y.wide())('select', x, y) = (x.wide() > y.rescale('INT32', in_zp=1))('select', x, y.clamp(-128, 126))
    z('select', x, y).clamp(-20, 30) = z('select', x.clamp(-20, 30), y.clamp(-20, 31))
    x.made('argmax', makers.extremum(3)) = (~x).made('argmax', makers.extremum(3))
""")

# ---- what is undefined without an effect ------------------------------------------------------------

_OPEN = [
    "(x + y)", "(x - y)", "x.mul(y, 5)", "x.mul(y, 31)", "x.negate()", "x('abs')", "x.div(y)", "x.div(-1)",
    "x.lsl(y)", "x.asr(y)", "x.lsr(y)", "x.rescale('INT32', 1, 8)", "x.rescale('INT32', 0, 30)",
    "x.rescale('INT8', 1 << 30, 30).wide()", "x.rescale('INT32', 1 << 14, 4, scale32=False)",
    "x.rescale('INT8', 1 << 14, 4, scale32=False).wide()", "x.concat(y, x.max(-5).negate()).reduce('sum')",
    "(x.mul(x, 1) + y.mul(y, 1))", "x.rescale('INT8').asr(y.rescale('INT8')).wide()",
    "x.cast('INT16').lsr(y.cast('INT16')).wide()", "x.reshape(1, 1, 1)('gather', y.reshape(1, 1)).reshape(1)",
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
    _table = "\n".join(f"x.const({_result}) = {_how.format(v=v)}" for v in _OPEN)
    near("what is open without an effect", "INT32 INT32", _table, "5, 8, 31, 32, 127, 200")
