"""Data movement alone: chains of transposes and reshapes in normal form, and movements of constants."""

from __future__ import annotations

from eqsat.egraph.encoding import LeafValue
from eqsat.egraph.engine import Extern, Rule
from eqsat.tensor.dtypes import STORAGE
from eqsat.tensor.movement import Move


def _compose(first: Move, second: Move):
    joined = first.then(second) if first.out_shape == second.in_shape else None
    return None if joined is None else (joined,)


def _fold(m: Move, leaf: LeafValue):
    node = leaf.node
    if not leaf.is_const or node.dtype not in STORAGE or node.shape != m.in_shape:
        return None
    return (LeafValue.constant(m.apply(node.attr("value").data), node.dtype),)


EXTERNS = [
    Extern("compose", 2, 1, _compose),
    Extern("is_identity", 1, 0, lambda m: () if m.is_identity else None),
    Extern("fold_move", 2, 1, _fold),
]

RULES = [
    Rule(
        "move-move",
        "moves",
        "Move n (Move m x) = Move (m then n) x",
        ("(= t (Move n (Move m x)))",),
        ("(union t (Move r x))",),
        (("r", "compose", "m n"),),
    ),
    Rule(
        "move-identity", "moves", "Move id x = x", ("(= t (Move m x))",), ("(union t x)",), (("", "is_identity", "m"),)
    ),
    Rule(
        "move-const",
        "moves",
        "Move m const = const'",
        ("(= t (Move m (Leaf c)))",),
        ("(union t (Leaf r))",),
        (("r", "fold_move", "m c"),),
    ),
]
