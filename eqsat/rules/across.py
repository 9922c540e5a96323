"""Data movement across other operators, in both directions, on forks and joins alike.

"push" moves a movement from an op's result to its operands, "pull" from one operand to the result; all operands that
have no matching movement get the inverse, which vanishes where it meets its counterpart.
"""

from __future__ import annotations

import numpy as np

from eqsat.egraph.encoding import Call
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor import crossing
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


def _push(m: Move, call: Call, operand: Type):
    """t = Move m (call x): (call', m') with t = call' (Move m' x)."""
    found = crossing.push(m, call.op, call.attrs, operand)
    return None if found is None else (Call(call.op, found[0]), found[1])


def _pull(call: Call, m: Move, operand: Type):
    """t = call (Move m x) for Move m x of type `operand`: (m', call') with t = Move m' (call' x)."""
    found = crossing.pull(call.op, call.attrs, m, operand)
    return None if found is None else (found[0], Call(call.op, found[1]))


def _push_units(m: Move, call: Call, operand: Type):
    """t = Move m (call x), call making unit axes of x longer: (view, call', m') with t = Move view (call' (Move m' x))."""
    found = crossing.push_units(m, call.op, call.attrs, operand)
    return None if found is None else (found[0], Call(call.op, found[1]), found[2])


def _pull_units(call: Call, m: Move, operand: Type):
    """t = call (Move m x), call acting along unit axes: all (m', call', view) with t = Move m' (call' (Move view x))."""
    found = crossing.pull_units(call.op, call.attrs, m, operand)
    return [(moved, Call(call.op, attrs), view) for moved, attrs, view in found]


# ---- concat -------------------------------------------------------------------------------------


def _concat_push(m: Move, call: Call):
    atom = m.whole(call.attr("axis"))
    return None if atom is None else (call.with_attrs(axis=atom.out_dim), call.attr("axis"))


def _concat_push_units(m: Move, call: Call, first: Type):
    """Move m (call xs), the xs 1 long along the axis: (call', axis, m', view, type of call')."""
    axis = call.attr("axis")
    found = crossing.concat_push_units(m, axis, first)
    if found is None:
        return None
    to, moved, view = found
    return call.with_attrs(axis=to), axis, moved, view, Type(moved.out_shape, first.dtype)


def _concat_pull(call: Call, m: Move, result: Type):
    """One operand is Move m y: all (call', axis, inverse of m for the whole, movement of the result, type of call')."""
    axis = call.attr("axis")
    return [
        (call.with_attrs(axis=to), axis, whole, whole.inverse(), Type(whole.out_shape, result.dtype))
        for to, whole in crossing.concat_pull(axis, m, result)
    ]


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
    Extern("push_units", 3, 3, _push_units),
    Extern("pull_units", 3, 3, _pull_units),
    Extern("concat_push", 2, 2, _concat_push),
    Extern("concat_push_units", 3, 5, _concat_push_units),
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
        "push-units",
        F,
        "Move m (tile|pad|slice x) = Move view (the same op on an axis of its own, of Move m' x), where it makes a unit axis longer",
        ("(= t (Move m (Ax f x)))", "(= s (type x))"),
        ("(union t (Move v (Ax g (Move p x))))",),
        (("v g p", "push_units", "m f s"),),
    ),
    R(
        "pull-units",
        F,
        "the same op of Move m x, along a unit axis = Move m' (the op of a view of x), where that axis stands beside a neighbour",
        ("(= t (Ax f y))", "(= y (Move m x))", "(= s (type y))"),
        ("(union t (Move p (Ax g (Move v x))))",),
        (("p g v", "pull_units", "f m s"),),
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
        "push-concat-units",
        F,
        "Move m (concat xs) = Move view (concat of the moved operands), these 1 long along an axis of its own",
        ("(= t (Move m (Cat f xs)))", "(= s (type (vec-get xs 0)))"),
        (
            '(let c (Cat g (unstable-vec-map (unstable-fn "Resized" p a) xs)))',
            "(set (type c) r)",
            "(union t (Move v c))",
        ),
        (("g a p v r", "concat_push_units", "m f s"),),
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
