"""Data movement across other operators, in both directions, on forks and joins alike.

"push" moves a movement from an op's result to its operands, "pull" from one operand to the result; all operands that
have no matching movement get the inverse, which vanishes where it meets its counterpart.
"""

from __future__ import annotations

import numpy as np

from eqsat.egraph.encoding import Call
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Type


def _restrict(m: Move, operand: Type):
    """The part of `m` that an operand, possibly broadcast to m's input shape, sees."""
    r = m.restrict(operand.shape)
    return None if r is None else (r,)


def _inverse_for(m: Move, result: Type, operand: Type):
    """m's inverse as `operand` sees it, when `m` covers the whole result."""
    return _restrict(m.inverse(), operand) if m.out_shape == result.shape else None


# ---- ops that act along axes --------------------------------------------------------------------


def carry(call: Call, operand: Type, m: Move) -> tuple[Call, Move] | None:
    """(call', m') with Move m' (call y) = call' (Move m y) for y of type `operand`, or None.

    An axis that `call` acts along must stay in one piece and outermost within its new dim: then a slice or pad of
    it is a slice or pad of that dim, scaled by what lies inside.
    """
    shape = operand.shape
    axes = _acted(call, shape)
    placed = {d: m.whole(d) for d in axes}
    if any(a is None for a in placed.values()):
        return None
    inner = {d: m.out_shape[a.out_dim] // shape[d] for d, a in placed.items()}
    to = {d: a.out_dim for d, a in placed.items()}
    if len(set(to.values())) != len(to):
        return None
    if call.op == "slice":
        start, size = [0] * len(m.out_shape), list(m.out_shape)
        for d in axes:
            start[to[d]] = call.attr("start")[d] * inner[d]
            size[to[d]] = call.attr("size")[d] * inner[d]
        after = m.resize({d: call.attr("size")[d] for d in axes})
        return _pair(call.with_attrs(start=tuple(start), size=tuple(size)), after)
    if call.op == "pad":
        pads = [0] * (2 * len(m.out_shape))
        sizes = {}
        for d in axes:
            low, high = call.attr("pads")[2 * d : 2 * d + 2]
            pads[2 * to[d] : 2 * to[d] + 2] = [low * inner[d], high * inner[d]]
            sizes[d] = shape[d] + low + high
        return _pair(call.with_attrs(pads=tuple(pads)), m.resize(sizes))
    if call.op == "tile":
        multiples = [1] * len(m.out_shape)
        for d in axes:
            multiples[to[d]] = call.attr("multiples")[d]
        return _pair(
            call.with_attrs(multiples=tuple(multiples)),
            m.resize({d: shape[d] * call.attr("multiples")[d] for d in axes}),
        )
    if any(n != 1 for n in inner.values()):
        return None  # the axis must have its dim to itself
    (d,) = axes
    if call.op == "rescale":
        return (call, m) if to[d] == len(m.out_shape) - 1 else None
    if call.op == "reverse":
        return call.with_attrs(axis=to[d]), m
    return _pair(call.with_attrs(axis=to[d]), m.resize({d: 1}))


def _pair(call: Call, m: Move | None) -> tuple[Call, Move] | None:
    return None if m is None else (call, m)


def _acted(call: Call, shape: tuple[int, ...]) -> list[int]:
    """Dims of the operand that `call` acts along."""
    if call.op == "slice":
        return [d for d, n in enumerate(shape) if call.attr("size")[d] != n]
    if call.op == "pad":
        return [d for d in range(len(shape)) if any(call.attr("pads")[2 * d : 2 * d + 2])]
    if call.op == "tile":
        return [d for d in range(len(shape)) if call.attr("multiples")[d] != 1]
    if call.op == "rescale":
        return [len(shape) - 1]
    return [call.attr("axis")]


def _push(m: Move, call: Call, operand: Type):
    """t = Move m (call x): (call', m') with t = call' (Move m' x)."""
    axes = _acted(call, operand.shape)
    shrunk = [d for d in axes if m.in_shape[d] == 1 and operand.shape[d] != 1]
    before = m
    for d in shrunk:
        before = before and before.grow(d, operand.shape[d])
    if before is not None:
        before = before.resize({d: operand.shape[d] for d in axes if d not in shrunk})
    if before is None or before.in_shape != operand.shape:
        return None
    carried = carry(call, operand, before)
    return (carried[0], before) if carried and carried[1] == m else None


def _pull(call: Call, m: Move, operand: Type):
    """t = call (Move m x) for Move m x of type `operand`: (m', call') with t = Move m' (call' x)."""
    carried = carry(call, operand, m.inverse())
    return None if carried is None else (carried[1].inverse(), carried[0])


# ---- concat -------------------------------------------------------------------------------------


def _concat_push(m: Move, call: Call):
    atom = m.whole(call.attr("axis"))
    return None if atom is None else (call.with_attrs(axis=atom.out_dim), call.attr("axis"))


def _concat_pull(call: Call, m: Move, result: Type):
    """One operand is Move m y: (call', axis, inverse of m for the whole, movement of the result, type of call')."""
    axis = call.attr("axis")
    inverse = m.inverse()
    if inverse.whole(axis) is None:
        return None
    whole = inverse.resize({axis: result.shape[axis]})
    if whole is None or whole.in_shape != result.shape:
        return None
    to = whole.whole(axis).out_dim
    return call.with_attrs(axis=to), axis, whole, whole.inverse(), Type(whole.out_shape, result.dtype)


def _resized(m: Move, axis: int, operand: Type):
    r = m.resize({axis: operand.shape[axis]})
    return None if r is None or r.in_shape != operand.shape else (r,)


def _concat_rescale(f: Call, g: Call, result: Type):
    """A per-channel RESCALE of a concat along another axis."""
    return () if f.op == "rescale" and g.attr("axis") != len(result.shape) - 1 else None


def _channel_of(m: Move) -> tuple[int, ...] | None:
    """For each index along m's last input axis, the last output axis's index that it goes to; None if others decide on that too."""
    atoms = m.atoms()
    last, channels = len(m.in_shape) - 1, m.out_shape[-1]
    if atoms is None or any(a.in_dim != last for a in atoms if a.out_dim == len(m.out_shape) - 1):
        return None
    index = np.zeros(m.in_shape[-1], np.int64)
    for a in atoms:
        if a.out_dim == len(m.out_shape) - 1:
            index += np.arange(m.in_shape[-1]) // a.in_stride % a.size * (a.out_stride % channels)
    return tuple(index.tolist())


def _rescale_regrouped(f: Call, m: Move, x: Type):
    """rescale (Move m x) = Move m (rescale' x), m a view that makes channels of a part of x's last axis."""
    if f.op != "rescale" or not m.is_view or m.in_shape[-1] == m.out_shape[-1] or m.in_shape != x.shape:
        return None
    channels = _channel_of(m)
    if channels is None:
        return None
    return (f.with_attrs(**{k: tuple(f.attr(k)[c] for c in channels) for k in ("multiplier", "shift")}),)


EXTERNS = [
    Extern("concat_rescale", 3, 0, _concat_rescale),
    Extern("rescale_regrouped", 3, 1, _rescale_regrouped),
    Extern("restrict", 2, 1, _restrict),
    Extern("inverse_for", 3, 1, _inverse_for),
    Extern("push", 3, 2, _push),
    Extern("pull", 3, 2, _pull),
    Extern("concat_push", 2, 2, _concat_push),
    Extern("concat_pull", 3, 5, _concat_pull),
    Extern("resized", 3, 1, _resized),
]

R = Rule
F = "across"
RULES = [
    R("push-unary", F, "Move m (f x) = f (Move m x)", ("(= t (Move m (P1 f x)))",), ("(union t (P1 f (Move m x)))",)),
    R("pull-unary", F, "f (Move m x) = Move m (f x)", ("(= t (P1 f (Move m x)))",), ("(union t (Move m (P1 f x)))",)),
    R(
        "push-binary",
        F,
        "Move m (f x y) = f (Move m x) (Move m y), movements restricted where an operand broadcasts",
        ("(= t (Move m (P2 f x y)))", "(= s (type x))", "(= u (type y))"),
        ("(union t (P2 f (Move p x) (Move q y)))",),
        (("p", "restrict", "m s"), ("q", "restrict", "m u")),
    ),
    R(
        "pull-binary-left",
        F,
        "f (Move m x) y = Move m (f x (Move m' y)), m' the inverse of m",
        ("(= t (P2 f (Move m x) y))", "(= s (type t))", "(= u (type y))"),
        ("(union t (Move m (P2 f x (Move q y))))",),
        (("q", "inverse_for", "m s u"),),
    ),
    R(
        "pull-binary-right",
        F,
        "f x (Move m y) = Move m (f (Move m' x) y)",
        ("(= t (P2 f x (Move m y)))", "(= s (type t))", "(= u (type x))"),
        ("(union t (Move m (P2 f (Move q x) y)))",),
        (("q", "inverse_for", "m s u"),),
    ),
    R(
        "push-select",
        F,
        "Move m (select c x y) = select (Move m c) (Move m x) (Move m y)",
        ("(= t (Move m (P3 f x y z)))", "(= s (type x))", "(= u (type y))", "(= v (type z))"),
        ("(union t (P3 f (Move p x) (Move q y) (Move r z)))",),
        (("p", "restrict", "m s"), ("q", "restrict", "m u"), ("r", "restrict", "m v")),
    ),
    *(
        R(
            f"pull-select-{k}",
            F,
            "select with a moved operand = Move m (select of the others moved back)",
            (
                f"(= t (P3 f {' '.join('(Move m w)' if i == k else x for i, x in enumerate('xyz'))}))",
                "(= s (type t))",
                *(f"(= {x}t (type {x}))" for i, x in enumerate("xyz") if i != k),
            ),
            (
                f"(union t (Move m (P3 f {' '.join('w' if i == k else f'(Move {x}m {x})' for i, x in enumerate('xyz'))})))",
            ),
            tuple((f"{x}m", "inverse_for", f"m s {x}t") for i, x in enumerate("xyz") if i != k),
        )
        for k in range(3)
    ),
    R(
        "push-axial",
        F,
        "Move m (slice|pad|tile|reverse|reduce|rescale x) = the same op on the axis where m puts it, of Move m' x",
        ("(= t (Move m (Ax f x)))", "(= s (type x))"),
        ("(union t (Ax g (Move p x)))",),
        (("g p", "push", "m f s"),),
    ),
    R(
        "pull-axial",
        F,
        "the same, from the operand to the result",
        ("(= t (Ax f y))", "(= y (Move m x))", "(= s (type y))"),
        ("(union t (Move p (Ax g x)))",),
        (("p g", "pull", "f m s"),),
    ),
    R(
        "push-concat",
        F,
        "Move m (concat xs) = concat of the moved operands",
        ("(= t (Move m (Cat f xs)))",),
        ('(union t (Cat g (unstable-vec-map (unstable-fn "Resized" m a) xs)))',),
        (("g a", "concat_push", "m f"),),
    ),
    R(
        "pull-concat",
        F,
        "concat with a moved operand = Move m (concat of the others moved back); layouts may be mixed",
        ("(= t (Cat f xs))", "(element xs i (Move m y))", "(= s (type t))"),
        (
            '(let c (Cat g (unstable-vec-map (unstable-fn "Resized" w a) xs)))',
            "(set (type c) r)",
            "(union t (Move p c))",
        ),
        (("g a w p r", "concat_pull", "f m s"),),
    ),
    R(
        "push-concat-rescale",
        F,
        "rescale (concat xs) = concat of rescale x, per channel, the concat along another axis",
        ("(= t (Ax f c))", "(= c (Cat g xs))", "(= s (type c))"),
        ('(union t (Cat g (unstable-vec-map (unstable-fn "Ax" f) xs)))',),
        (("", "concat_rescale", "f g s"),),
    ),
    R(
        "rescale-view",
        F,
        "rescale (Move m x) = Move m (rescale' x), per channel, m a view that makes channels of a part of x's last axis",
        ("(= t (Ax f (Move m x)))", "(= s (type x))"),
        ("(union t (Move m (Ax g x)))",),
        (("g", "rescale_regrouped", "f m s"),),
    ),
    R(
        "resized",
        F,
        "a movement adjusted to one operand of a concat",
        ("(= t (Resized m a x))", "(= s (type x))"),
        ("(union t (Move r x))",),
        (("r", "resized", "m a s"),),
    ),
]
