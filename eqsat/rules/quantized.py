"""Rescale, clamp, table: what pointwise ops do to one INT8 value is a function of 256 points, so it can be evaluated.

A `Curve` is such a function. The fact (curve x t) = c says t = c(x) in every element; it grows along pointwise ops whose
operands all come from one x or are constants of one element, whatever the dtypes between. Where t is INT8 again, t is one
TABLE of x: that holds for RESCALEs, MUL by a constant and back, and for x * sigmoid(x) alike, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.dtypes import DType
from eqsat.tensor.ops import OPS, evaluate_op, infer
from eqsat.tensor.types import GraphError, Type, attrs_of

_POINTS = np.arange(-128, 128)
#: TOSA's NanPropagationMode PROPAGATE, as ExecuTorch writes it on integers.
_PROPAGATE = 1


@dataclass(frozen=True, slots=True)
class Curve:
    """A function of an INT8 value: `values` holds its 256 results as int64 bytes. steps: 0 the identity as such, 1 one CLAMP or
    TABLE (for which there is nothing to gain), 2 anything else. A constant is a Curve too: it ignores its value."""

    values: bytes
    dtype: str
    steps: int

    @property
    def points(self) -> np.ndarray:
        return np.frombuffer(self.values, np.int64)


def curve(points: np.ndarray, dtype: str, steps: int) -> Curve:
    return Curve(np.ascontiguousarray(points, dtype=np.int64).tobytes(), dtype, steps)


IDENTITY = curve(_POINTS, "INT8", 0)


def _start(x: Type):
    return (IDENTITY,) if x.dtype == "INT8" else None


def _constant(leaf: LeafValue):
    node = leaf.node
    if not leaf.is_const or not DType.of(node.dtype).is_integral or node.attr("value").data.size != 1:
        return None
    return (curve(np.full(256, int(node.attr("value").data.reshape(-1)[0])), node.dtype, 2),)


def _follow(f: Call, *xs: Curve):
    """f of curves of one value, in each of its points."""
    if f.op not in OPS or OPS[f.op].kind != "pointwise" or any(not DType.of(x.dtype).is_integral for x in xs):
        return None
    try:
        t = infer(f.op, f.attrs, [Type((256,), x.dtype) for x in xs])
        points = evaluate_op(f.op, f.attrs, [x.points.astype(DType.of(x.dtype).storage) for x in xs], t)
    except GraphError:
        return None
    single = f.op in ("clamp", "table") and xs[0].steps == 0
    return (curve(points, t.dtype, 1 if single else 2),) if DType.of(t.dtype).is_integral else None


def _table(c: Curve):
    """The one op that is c: a CLAMP if it cuts values off, else a TABLE. None for what is one already."""
    if c.dtype != "INT8" or c.steps < 2 or c.values == IDENTITY.values:
        return None
    points = c.points
    low, high = int(points.min()), int(points.max())
    if np.array_equal(points, np.clip(_POINTS, low, high)):
        return (
            Call(
                "clamp",
                attrs_of(
                    {"min_val": np.int8(low).tobytes(), "max_val": np.int8(high).tobytes(), "nan_mode": _PROPAGATE}
                ),
            ),
        )
    return (Call("table", attrs_of({"table": tuple(points.tolist())})),)


# ---- other dtypes -------------------------------------------------------------------------------


def _limits(f: Call, dtype: str) -> tuple[int, int]:
    low, high = (np.frombuffer(f.attr(name), DType.of(dtype).storage)[0] for name in ("min_val", "max_val"))
    return int(low), int(high)


def _clamp_clamp(f: Call, g: Call, x: Type):
    """The CLAMP that is f after g: both are monotone, so it maps g's ends to f of them."""
    if (f.op, g.op) != ("clamp", "clamp") or not DType.of(x.dtype).is_integral:
        return None
    low, high = (
        np.clip(v, *_limits(f, x.dtype)).astype(DType.of(x.dtype).storage).tobytes() for v in _limits(g, x.dtype)
    )
    return (f.with_attrs(min_val=low, max_val=high),)


def _is_identity(f: Call, x: Type):
    """CLAMP to the dtype's limits; RESCALE by exactly one between equal dtypes, signs and zero points; IDENTITY."""
    if f.op == "clamp":
        return () if DType.of(x.dtype).is_integral and _limits(f, x.dtype) == DType.of(x.dtype).limits else None
    if f.op != "rescale":
        return () if f.op == "identity" else None
    a = dict(f.attrs)
    same = a["dtype"] == x.dtype and a["input_unsigned"] == a["output_unsigned"] and a["in_zp"] == a["out_zp"]
    return () if same and all(m == 1 << s for m, s in zip(a["multiplier"], a["shift"], strict=True)) else None


#: Names end in words: a relation `curve` beside another named `curve1` makes egglog 13.2's generated symbols collide.
EXTERNS = [
    Extern("curve_start", 1, 1, _start),
    Extern("curve_constant", 1, 1, _constant),
    Extern("curve_of_one", 2, 1, _follow),
    Extern("curve_of_two", 3, 1, _follow),
    Extern("curve_table", 1, 1, _table),
    Extern(
        "curve_identity", 1, 0, lambda c: () if c.steps and c.dtype == "INT8" and c.values == IDENTITY.values else None
    ),
    Extern("clamp_clamp", 3, 1, _clamp_clamp),
    Extern("is_identity_op", 2, 0, _is_identity),
]

R = Rule.of("quantized")
RULES = [
    R(
        "pointwise-identity",
        "clamp to the dtype's limits, rescale by one, identity: = x (removal)",
        ("(= t (P1 f x))", "(= s (type x))"),
        "(union t x) (delete (P1 f x))",
        ("", "is_identity_op", "f s"),
    ),
    R(
        "rescale-identity",
        "rescale by one in every channel = x (removal)",
        ("(= t (Ax f x))", "(= s (type x))"),
        "(union t x) (delete (Ax f x))",
        ("", "is_identity_op", "f s"),
    ),
    R(
        "clamp-clamp",
        "clamp f (clamp g x) = clamp (f after g) x",
        ("(= t (P1 f (P1 g x)))", "(= s (type x))"),
        "(union t (P1 r x))",
        ("r", "clamp_clamp", "f g s"),
    ),
    R(
        "curve-table",
        "t = c(x), both INT8: t = table c x, or the clamp that c is",
        ("(= c (curve x t))",),
        "(union t (P1 r x))",
        ("r", "curve_table", "c"),
    ),
    R(
        "curve-identity",
        "t = x in all 256 values: t = x",
        ("(= c (curve x t))",),
        "(union t x)",
        ("", "curve_identity", "c"),
    ),
    R(
        "curve-constant",
        "a constant of one element",
        ("(= t (Leaf k))",),
        "(set (scalar t) c)",
        ("c", "curve_constant", "k"),
        analysis=True,
    ),
    R(
        "curve-constant-unary",
        "f of one",
        ("(= t (P1 f k))", "(= d (scalar k))"),
        "(set (scalar t) c)",
        ("c", "curve_of_one", "f d"),
        analysis=True,
    ),
    R(
        "curve-start-unary",
        "x = id(x) for an INT8 x that f reads",
        ("(= t (P1 f x))", "(= s (type x))"),
        "(set (curve x x) c)",
        ("c", "curve_start", "s"),
        analysis=True,
    ),
    *(
        R(
            f"curve-start-{side}",
            "the same for f of two operands",
            (f"(= t (P2 f {xs}))", "(= s (type x))"),
            "(set (curve x x) c)",
            ("c", "curve_start", "s"),
            analysis=True,
        )
        for side, xs in (("left", "x y"), ("right", "y x"))
    ),
    R(
        "curve-unary",
        "f c(x) = (c then f)(x)",
        ("(= u (P1 f t))", "(= d (curve x t))"),
        "(set (curve x u) c)",
        ("c", "curve_of_one", "f d"),
        analysis=True,
    ),
    R(
        "curve-left",
        "f c(x) k for a constant k of one element",
        ("(= u (P2 f t k))", "(= d (curve x t))", "(= e (scalar k))"),
        "(set (curve x u) c)",
        ("c", "curve_of_two", "f d e"),
        analysis=True,
    ),
    R(
        "curve-right",
        "f k c(x)",
        ("(= u (P2 f k t))", "(= d (curve x t))", "(= e (scalar k))"),
        "(set (curve x u) c)",
        ("c", "curve_of_two", "f e d"),
        analysis=True,
    ),
    R(
        "curve-both",
        "f c(x) d(x): both operands come from one x",
        ("(= u (P2 f s t))", "(= d (curve x s))", "(= e (curve x t))"),
        "(set (curve x u) c)",
        ("c", "curve_of_two", "f d e"),
        analysis=True,
    ),
]
