"""Presets: named sets of rules.

`all` is the default.
Each of the other presets reproduces passes that were proposed for ExecuTorch's Arm backend.
The rules of a preset have no order and are applied until nothing changes, on every branch and in both directions.
Its statement says where this, or the normal form of data movement, makes the preset stronger than the passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.egraph.kinds import Single, Value, acts_along_axes
from eqsat.egraph.rule import Rule, with_helpers
from eqsat.egraph.terms import extern, symbols
from eqsat.egraph.tree import Term
from eqsat.rules import RULES
from eqsat.tensor.types import Type

_BY_NAME: Mapping[str, Rule] = {r.name: r for r in RULES}


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of rules.

    statement: describes the passes that the preset reproduces, in a few lines.
    rules: its rules, and the analyses that these rules read.
    """

    name: str
    statement: str
    rules: tuple[Rule, ...]


def _collect(*names: str) -> tuple[Rule, ...]:
    return with_helpers((_BY_NAME[n] for n in names), RULES)


@extern
def one_element(x: Type) -> bool:
    """Tells whether a tensor has one element."""
    return x.elements == 1


@extern
def is_pointwise(f: Single) -> bool:
    """Tells whether an operator of one operand acts along no axis."""
    return not acts_along_axes(f)


def _limit(name: str, suffix: str, where: Term) -> Rule:
    """Returns a rule restricted by one more condition, under another name."""
    rule = _BY_NAME[name]
    return replace(rule, name=f"{name}-{suffix}", where=(*rule.where, where))


_MOVES = ("move-move", "move-identity", "move-const")

CATALOGUE = (
    Preset("all", "every exact rule", tuple(RULES)),
    Preset("none", "no rules: the graph stays as it is, and equal values are computed once", ()),
    Preset(
        "fuse-tosa-transposes",
        "FuseTosaTransposesPass (pytorch/executorch pull request 18947): removes transposes that change nothing, "
        "cancels inverse pairs, merges neighbouring transposes, and moves a transpose down through unary operators, "
        "through RESCALEs with one scale, and through ADD, MUL, SUB and similar operators whose other operand has one "
        "element. Stronger than the pass: reshapes are data movement too, so chains with reshapes in between are also "
        "merged",
        (
            *_collect("move-move", "move-identity"),
            _limit("pull-unary", "pointwise", is_pointwise(symbols("f", Single))),
            _limit("pull-binary-left", "scalar", one_element(symbols("y", Value))),
            _limit("pull-binary-right", "scalar", one_element(symbols("x", Value))),
        ),
    ),
    Preset(
        "explicit-permutes",
        "the six passes of pull request 19015 on explicit permutes (they remove permutes around elementwise "
        "operators, pairs of permutes, and permutes that move only dimensions of size 1, move a permute below a "
        "squeeze, and merge cascaded permutes and cascaded views), and also branches and forks in both directions, "
        "which the review of the pull request found missing. Stronger than the passes: a permute passes operators "
        "without a closed region around them, any view is merged instead of only squeezes, and a permute passes a "
        "TILE, PAD or CONCAT along an axis of size 1 that a view added",
        _collect(
            *_MOVES,
            "push-unary",
            "pull-unary",
            "push-binary",
            "pull-binary-left",
            "pull-binary-right",
            "push-units",
            "pull-units",
            "push-concat",
            "push-concat-units",
            "pull-concat",
            "pull-concat-units",
        ),
    ),
    Preset(
        "unique-outputs",
        "pull request 18866: merges equal values, and keeps a separate tensor for each output slot. This needs no "
        "rule: the e-graph computes equal values once, and the writer adds one IDENTITY per output slot if a value "
        "fills several slots, or if an output is an input or a constant",
        (),
    ),
    Preset(
        "fuse-concat",
        "the five patterns of FuseConcatPass (pull request 18827): a concat of one operand, a concat followed by a "
        "slice of exactly one operand, slices that a concat rejoins completely, a concat followed by a slice within "
        "one operand, and slices that a concat rejoins in part. Stronger than the pass: neighbouring slices are "
        "rejoined even if the concat has other operands, and a slice may take of several operands",
        _collect("concat-single", "axial-nothing", "slice-concat", "pair-slices", "concat-slices"),
    ),
)

#: The rules of each preset, by its name.
PRESETS: Mapping[str, Sequence[Rule]] = {p.name: p.rules for p in CATALOGUE}
