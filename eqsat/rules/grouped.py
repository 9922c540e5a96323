"""Rules that merge several convolutions of one tensor, or of slices of it, into fewer convolutions if one concat joins
their results.

ExecuTorch writes a grouped convolution as a slice, a convolution and a RESCALE for each group, and one concat.
One convolution whose weights are zero outside the blocks of its groups gives the same integers.
Several convolutions with a few groups each give the same integers, too.
`rules(choose)` makes the rules with a function that chooses which of these are offered.
The function for a target is in `eqsat/options/spellings.py`; `RULES` do not depend on a target and offer all of them.

The operands of a concat are visited in order from the first one, and all are merged at once.
If any two neighbours were merged, there would be a concat for each way to divide the operands, exponentially many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from eqsat.egraph.kinds import (
    AnyRescale,
    Call,
    ChannelRescale,
    Concat,
    Constant,
    Conv2d,
    LeafValue,
    Slice,
    Value,
    Values,
)
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import element, extern, fact, length, let, symbols
from eqsat.rules.slicing import slice_call, takes_channels
from eqsat.tensor.types import Type

#: Maximum number of weights of a merged convolution.
_MOST_WEIGHTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Branch:
    """An operand of a concat: a convolution of channels of a tensor, and its RESCALE with a scale per channel.

    start, end: the channels that it reads, from `start` up to, but not including, `end`.
    """

    rescale: Call
    call: Call
    weights: LeafValue
    bias: LeafValue
    start: int
    end: int

    @property
    def channels(self) -> int:
        """The number of output channels."""
        count: int = self.weights.node.shape[0]
        return count


@dataclass(frozen=True, slots=True)
class Branches:
    """A sequence of branches that read one tensor and differ only in constants, channels and scales."""

    row: tuple[Branch, ...]


#: Returns the sequences to offer, for (the given branches, type of their tensor, other sequences with the same result).
Choose = Callable[[Branches, Type, Sequence[Branches]], Sequence[Branches]]

#: Fact branch(y, x): y as a branch of x.
branch = fact("branch", Value, Value, gives=Branch)
#: Fact branches(xs, x, n): the first n of xs as branches of x.
branches = fact("branches", Values, Value, int, gives=Branches)
#: Fact parts(xs, x, p, n): the values of the first n branches of p.
#: The concat of all branches of p is that of xs.
parts = fact("parts", Values, Value, Branches, int, gives=Values)


def merge(of: Sequence[Branch]) -> Branch:
    """Returns a sequence of branches as one branch.

    The branch reads all channels from the first to the last one that any of them reads.
    Its weights are zero (`w_zp`) for channels that a branch does not read.
    """
    first = of[0]
    start, count = _read(of)
    (zero,), (_, *kernel, _) = first.call.attr("w_zp"), first.weights.node.shape
    weights = np.full((sum(b.channels for b in of), *kernel, count), zero, first.weights.data.dtype)
    row = 0
    for b in of:
        weights[row : row + b.channels, ..., b.start - start : b.end - start] = b.weights.data
        row += b.channels
    bias = np.concatenate([np.broadcast_to(b.bias.data, (b.channels,)) for b in of])
    w, d = (LeafValue.constant(a, k.node.dtype) for a, k in ((weights, first.weights), (bias, first.bias)))
    scales = {name: sum((b.rescale.attr(name) for b in of), ()) for name in ("multiplier", "shift")}
    return Branch(first.rescale.with_attrs(**scales), first.call, w, d, start, start + count)


def plans(found: Branches) -> list[Branches]:
    """Returns all shorter sequences of branches with the same result in which each branch merges equally many.

    Merged convolutions have `_MOST_WEIGHTS` weights at most.
    """
    row = found.row
    sizes = [n for n in range(2, len(row) + 1) if len(row) % n == 0]
    cut = ([row[k : k + n] for k in range(0, len(row), n)] for n in sizes)
    return [Branches(tuple(map(merge, parts))) for parts in cut if max(map(_weights, parts)) <= _MOST_WEIGHTS]


def _weights(of: Sequence[Branch]) -> int:
    """Returns the number of weights that branches have if merged."""
    height, width = of[0].weights.node.shape[1:3]
    return sum(b.channels for b in of) * height * width * _read(of)[1]


def _read(of: Sequence[Branch]) -> tuple[int, int]:
    """Returns the first channel that any of some branches reads, and the number of channels up to the last one."""
    start = min(b.start for b in of)
    return start, max(b.end for b in of) - start


@extern
def of_slice(rescale: AnyRescale, call: Conv2d, cut: Slice, w: Constant, b: Constant) -> Branch:
    """Returns a convolution of some channels of a tensor, and its RESCALE, as a branch."""
    start = cut.attr("start")[-1]
    return _branch(rescale, call, w, b, start, start + cut.attr("size")[-1])


@extern
def of_whole(rescale: AnyRescale, call: Conv2d, x: Type, w: Constant, b: Constant) -> Branch:
    """Returns a convolution of all channels of a tensor, and its RESCALE, as a branch."""
    return _branch(rescale, call, w, b, 0, x.shape[-1])


def _branch(rescale: Call, call: Call, w: LeafValue, b: LeafValue, start: int, end: int) -> Branch:
    """Returns a branch; if its RESCALE has a single scale, that is the scale of each channel."""
    times = 1 if rescale.attr("per_channel") else w.node.shape[0]
    scales = {name: rescale.attr(name) * times for name in ("multiplier", "shift")}
    return Branch(rescale.with_attrs(per_channel=True, **scales), call, w, b, start, end)


@extern
def joins_channels(concat: Concat, x: Type) -> bool:
    """Tells whether a concat is along the last axis."""
    return bool(concat.attr("axis") == len(x.shape) - 1)


@extern
def alone(b: Branch) -> Branches:
    """Returns a sequence of one branch."""
    return Branches((b,))


@extern
def append(before: Branches, b: Branch) -> Branches:
    """Returns a sequence with one more branch."""
    return Branches((*before.row, b))


@extern
def are_alike(before: Branches, b: Branch) -> bool:
    """Tells whether a branch differs from those of a sequence only in what `Branches` allows."""
    first, scales = before.row[0], {"multiplier": (), "shift": ()}
    return (
        first.call == b.call
        and first.rescale.with_attrs(**scales) == b.rescale.with_attrs(**scales)
        and first.weights.node.shape[1:3] == b.weights.node.shape[1:3]
        and (first.weights.node.dtype, first.bias.node.dtype) == (b.weights.node.dtype, b.bias.node.dtype)
    )


@extern
def is_all(p: Branches, n: int) -> bool:
    """Tells whether there are n branches."""
    return n == len(p.row)


@extern
def operators_of(p: Branches, n: int, x: Type) -> tuple[ChannelRescale, Conv2d, Slice, Constant, Constant] | None:
    """Returns RESCALE, convolution, slice of the tensor, weights and bias of branch n, or None if there is no such."""
    if n == len(p.row):
        return None
    b, rows = p.row[n], x.shape[:-1]
    return b.rescale, b.call, slice_call((*(0 for _ in rows), b.start), (*rows, b.end - b.start)), b.weights, b.bias


def rules(choose: Choose) -> list[Rule]:
    """Returns the rules of the family, with the sequences that `choose` keeps."""

    @extern
    def fewer(found: Branches, x: Type) -> list[Branches]:
        """Returns the chosen sequences of fewer convolutions that have the same result."""
        return list(choose(found, x, plans(found)))

    conv, cut, concat = symbols("conv", Conv2d), symbols("cut", Slice), symbols("concat", Concat)
    rescale = symbols("rescale", AnyRescale)
    x, y, xs, i = symbols("x", Value), symbols("y", Value), symbols("xs", Values), symbols("i", int)
    w, b, p = symbols("w", Constant), symbols("b", Constant), symbols("p", Branches)
    make = partial(rule, family="grouped")
    return [
        make(
            "branch-slice",
            branch(rescale(conv(cut(x), w, b)), x),
            of_slice(rescale, conv, cut, w, b),
            where=takes_channels(cut, x),
        ),
        make("branch-whole", branch(rescale(conv(x, w, b)), x), of_whole(rescale, conv, x, w, b)),
        make(
            "branches-first",
            branches(xs, x, 1),
            alone(branch(y, x)),
            where=(concat(xs[y, ...]), joins_channels(concat, y)),
        ),
        make(
            "branches-next",
            branches(xs, x, i + 1),
            append(branches(xs, x, i), branch(y, x)),
            where=(element(xs, i, y), are_alike(branches(xs, x, i), branch(y, x))),
        ),
        make("parts-first", parts(xs, x, fewer(branches(xs, x, length(xs)), x), 0), []),
        make(
            "parts-next",
            parts(xs, x, p, i + 1),
            let(operators_of(p, i, x), lambda f, conv, cut, w, b: parts(xs, x, p, i) + [f(conv(cut(x), w, b))]),
        ),
        make(
            "grouped",
            concat(xs),
            concat(parts(xs, x, p, i)),
            where=(joins_channels(concat, x), is_all(p, i)),
        ),
    ]


RULES = rules(lambda found, x, rows: rows)
