"""Presets: named sets of rules.

`all` is the default.
Each of the others reproduces passes that were proposed for ExecuTorch's Arm backend.
A preset has no order and is applied until nothing changes, on every branch and in both directions.
Its statement says where that, or the normal form of data movement, makes it stronger than those passes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Single, Value, acts_along_axes
from eqsat.egraph.rule import Rule, with_helpers
from eqsat.egraph.terms import symbols
from eqsat.egraph.tree import Term
from eqsat.rules import RULES
from eqsat.tensor.types import Type

_BY_NAME: Mapping[str, Rule] = {r.name: r for r in RULES}


@dataclass(frozen=True, slots=True)
class Preset:
    """A named set of rules.

    statement: what it reproduces, in a few lines.
    rules: its rules with the analyses that they read.
    """

    name: str
    statement: str
    rules: tuple[Rule, ...]


def _named(*names: str) -> tuple[Rule, ...]:
    return with_helpers((_BY_NAME[n] for n in names), RULES)


@extern
def one_element(x: Type) -> bool:
    """Tells whether a tensor has one element."""
    return x.elements == 1


@extern
def is_pointwise(f: Single) -> bool:
    """Tells whether an operator of one operand acts along no axis."""
    return not acts_along_axes(f)


def _limited(name: str, suffix: str, where: Term) -> Rule:
    """Returns a rule for fewer matches, under another name."""
    rule = _BY_NAME[name]
    return replace(rule, name=f"{name}-{suffix}", where=(*rule.where, where))


_MOVES = ("move-move", "move-identity", "move-const")

CATALOGUE = (
    Preset("all", "every exact rule", tuple(RULES)),
    Preset("none", "no rule: the graph as it is, equal values computed once", ()),
    Preset(
        "fuse-tosa-transposes",
        "FuseTosaTransposesPass (pytorch/executorch pull request 18947): a transpose by the identity goes, inverse pairs cancel, neighbours "
        "compose, and a transpose goes down through unary ops and RESCALEs with one scale, and through ADD, MUL, SUB and the like beside "
        "an operand of one element. Stronger: a reshape is a movement too, so chains with reshapes between compose",
        (
            *_named("move-move", "move-identity"),
            _limited("pull-unary", "pointwise", is_pointwise(symbols("f", Single))),
            _limited("pull-binary-left", "scalar", one_element(symbols("y", Value))),
            _limited("pull-binary-right", "scalar", one_element(symbols("x", Value))),
        ),
    ),
    Preset(
        "explicit-permutes",
        "the six passes of pull request 19015 on explicit permutes (removal around elementwise ops, pairs, permutes that move only unit "
        "dims, permute below squeeze, cascaded permutes, cascaded views), and the branches and forks in both directions that its review "
        "found missing. Stronger: no region must be closed for a permute to pass, any view composes, not only squeezes, "
        "and a permute passes a TILE, PAD or CONCAT along an axis of size 1 that a view has put in",
        _named(
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
        ),
    ),
    Preset(
        "unique-outputs",
        "pull request 18866: equal values become one and each output slot stays a tensor of its own. No identity is needed: the e-graph "
        "computes equal values once, and the writer gives a value in several slots, or an input or constant that is an output, an IDENTITY per slot",
        (),
    ),
    Preset(
        "fuse-concat",
        "the five patterns of FuseConcatPass (pull request 18827): concat of one, concat then exact slice, slices rejoined in full, concat then "
        "slice within one input, slices rejoined in part. Stronger: neighbours rejoin also beside other operands of the concat",
        _named("concat-single", "axial-nothing", "slice-concat-1", "pair-slices", "concat-slices"),
    ),
)

#: The rules of each preset, by its name.
PRESETS: Mapping[str, Sequence[Rule]] = {p.name: p.rules for p in CATALOGUE}
