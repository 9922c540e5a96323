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

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import AnyRescale, ChannelRescale, Concat, Constant, Conv2d, Index, Slice, Value, Values
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import element, fact, length, let, symbols
from eqsat.rules.slicing import slice_call
from eqsat.tensor.types import Type

#: Maximum number of weights of a merged convolution.
_MOST_WEIGHTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution of the channels of a tensor from `start` up to, but not including, `end`."""

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
class Branch:
    """An operand of a concat: a convolution of channels of a tensor, and its RESCALE with a scale per channel."""

    product: Product
    rescale: Call

    def cut(self, x: Type) -> Call:
        """Returns the slice that the branch reads of the tensor, whose type is x."""
        rows, read = x.shape[:-1], self.product
        return slice_call((*(0 for _ in rows), read.start), (*rows, read.end - read.start))


@dataclass(frozen=True, slots=True)
class Branches:
    """A sequence of branches that read one tensor.

    Their convolutions and RESCALEs differ only in constants, channels and scales.
    """

    row: tuple[Branch, ...]


#: Returns the sequences to offer, for (the given branches, type of their tensor, other sequences with the same result).
Choose = Callable[[Branches, Type, Sequence[Branches]], Sequence[Branches]]

#: Fact product(y, x): y as a convolution of x, or of some of its channels.
product = fact("product", Value, Value, gives=Product)
#: Fact branch(y, x): y as a branch of x.
branch = fact("branch", Value, Value, gives=Branch)
#: Fact branches(concat, xs, x, n): the first n operands of a concat as branches of x.
branches = fact("branches", Concat, Values, Value, Index, gives=Branches)
#: Fact offered(concat, xs, x, p, q): the concat may have the sequence p of branches of x as its operands.
#: q is the empty sequence, so parts(p, q, x) are all operands of p.
offered = fact("offered", Concat, Values, Value, Branches, Branches)
#: Fact parts(p, q, x): the operands of a concat for the sequence p, without the operands for its last branches q.
parts = fact("parts", Branches, Branches, Value, gives=Values)


def merged(of: Sequence[Branch]) -> Branch:
    """Returns a sequence of branches as one branch.

    The branch reads all channels from the first to the last one that any of them reads.
    Its weights are zero (`w_zp`) for channels that a branch does not read.
    """
    products = [b.product for b in of]
    first = products[0]
    start, count = _read(products)
    (zero,), (_, *kernel, _) = first.call.attr("w_zp"), first.weights.node.shape
    weights = np.full((sum(p.channels for p in products), *kernel, count), zero, first.weights.data.dtype)
    row = 0
    for p in products:
        weights[row : row + p.channels, ..., p.start - start : p.end - start] = p.weights.data
        row += p.channels
    bias = np.concatenate([np.broadcast_to(p.bias.data, (p.channels,)) for p in products])
    w, b = (LeafValue.constant(a, k.node.dtype) for a, k in ((weights, first.weights), (bias, first.bias)))
    scales = {name: sum((b.rescale.attr(name) for b in of), ()) for name in ("multiplier", "shift")}
    return Branch(Product(first.call, w, b, start, start + count), of[0].rescale.with_attrs(**scales))


def plans(found: Branches) -> list[Branches]:
    """Returns all shorter sequences of branches with the same result in which each branch merges equally many.

    Merged convolutions have `_MOST_WEIGHTS` weights at most.
    """
    row = found.row
    sizes = [n for n in range(2, len(row) + 1) if len(row) % n == 0]
    cut = ([row[k : k + n] for k in range(0, len(row), n)] for n in sizes)
    return [Branches(tuple(map(merged, parts))) for parts in cut if max(map(_weights, parts)) <= _MOST_WEIGHTS]


def _weights(of: Sequence[Branch]) -> int:
    """Returns the number of weights that branches have if merged."""
    products = [b.product for b in of]
    height, width = products[0].weights.node.shape[1:3]
    return sum(p.channels for p in products) * height * width * _read(products)[1]


def _read(products: Sequence[Product]) -> tuple[int, int]:
    """Returns the first channel that any of some products reads, and the number of channels up to the last one."""
    start = min(p.start for p in products)
    return start, max(p.end for p in products) - start


@extern
def of_slice(call: Conv2d, cut: Slice, x: Type, w: Constant, b: Constant) -> Product | None:
    """Returns a convolution of some channels of a tensor, or None if the slice also cuts other axes."""
    start, size = cut.attr("start"), cut.attr("size")
    return Product(call, w, b, start[-1], start[-1] + size[-1]) if size[:-1] == x.shape[:-1] else None


@extern
def of_whole(call: Conv2d, x: Type, w: Constant, b: Constant) -> Product:
    """Returns a convolution of all channels of a tensor."""
    return Product(call, w, b, 0, x.shape[-1])


@extern
def scaled(read: Product, rescale: AnyRescale) -> Branch:
    """Returns a convolution with its RESCALE as a branch.

    If the RESCALE has a single scale, the branch has that scale for each channel.
    """
    times = 1 if rescale.attr("per_channel") else read.channels
    scales = {name: rescale.attr(name) * times for name in ("multiplier", "shift")}
    return Branch(read, rescale.with_attrs(per_channel=True, **scales))


@extern
def first_branch(concat: Concat, b: Branch) -> Branches | None:
    """Returns a sequence of one branch, or None if the concat is not along channels."""
    return Branches((b,)) if concat.attr("axis") == b.product.weights.data.ndim - 1 else None


@extern
def next_branch(before: Branches, b: Branch) -> Branches | None:
    """Returns a sequence with one more branch, or None if that branch differs from the others in more than
    `Branches` allows."""
    return Branches((*before.row, b)) if _alike(before.row[0], b) else None


def _alike(a: Branch, b: Branch) -> bool:
    p, q = a.product, b.product
    scales = {"multiplier": (), "shift": ()}
    return (
        p.call == q.call
        and a.rescale.with_attrs(**scales) == b.rescale.with_attrs(**scales)
        and p.weights.node.shape[1:3] == q.weights.node.shape[1:3]
        and (p.weights.node.dtype, p.bias.node.dtype) == (q.weights.node.dtype, q.bias.node.dtype)
    )


@extern
def others(row: Branches) -> Branches | None:
    """Returns all branches of a sequence except the first one."""
    return Branches(row.row[1:]) if row.row else None


@extern
def none_of(row: Branches) -> Branches:
    """Returns the empty sequence, which remains when all operands of a sequence have been made."""
    return Branches(())


@extern
def first_of(row: Branches, x: Type) -> tuple[ChannelRescale, Conv2d, Slice, Constant, Constant] | None:
    """Returns the first branch of a sequence: RESCALE, convolution, slice of the tensor, weights and bias."""
    if not row.row:
        return None
    b = row.row[0]
    return b.rescale, b.product.call, b.cut(x), b.product.weights, b.product.bias


def rules(choose: Choose) -> list[Rule]:
    """Returns the rules of the family, with the sequences that `choose` keeps.

    Convolutions that these rules have made for a graph are not merged again.
    """
    made: set[Branches] = set()
    answers: dict[tuple[Branches, Type], Sequence[Branches]] = {}

    def forget() -> None:
        made.clear()
        answers.clear()

    @extern
    def fewer(found: Branches, x: Type) -> list[Branches]:
        """Returns the chosen sequences of fewer convolutions that have the same result."""
        asked = found, x
        # A proof asks the same question again, and must get the same answer.
        if asked not in answers:
            answers[asked] = () if found in made else choose(found, x, plans(found))
            made.update(answers[asked])
        return list(answers[asked])

    conv, cut, concat = symbols("conv", Conv2d), symbols("cut", Slice), symbols("concat", Concat)
    rescale = symbols("rescale", AnyRescale)
    x, y, xs, i = symbols("x", Value), symbols("y", Value), symbols("xs", Values), symbols("i", Index)
    w, b, p, q = symbols("w", Constant), symbols("b", Constant), symbols("p", Branches), symbols("q", Branches)
    plan = fewer(branches(concat, xs, x, length(xs)), x)
    make = partial(rule, family="grouped", forget=forget)
    return [
        make("product-slice", product(conv(cut(x), w, b), x), of_slice(conv, cut, x, w, b)),
        make("product-whole", product(conv(x, w, b), x), of_whole(conv, x, w, b)),
        make("branch", branch(rescale(y), x), scaled(product(y, x), rescale)),
        make(
            "branches-first", branches(concat, xs, x, 1), first_branch(concat, branch(y, x)), where=concat(xs[y, ...])
        ),
        make(
            "branches-next",
            branches(concat, xs, x, i + 1),
            next_branch(branches(concat, xs, x, i), branch(y, x)),
            where=element(xs, i, y),
        ),
        make("offered", offered(concat, xs, x, plan, none_of(plan)), where=concat(xs)),
        make("parts-first", parts(p, p, x), [], where=offered(concat, xs, x, p, q)),
        make(
            "parts-next",
            parts(p, others(q), x),
            let(first_of(q, x), lambda f, conv, cut, w, b: parts(p, q, x) + [f(conv(cut(x), w, b))]),
        ),
        make("grouped", concat(xs), concat(parts(p, q, x)), where=offered(concat, xs, x, p, q)),
    ]


def _every(found: Branches, x: Type, rows: Sequence[Branches]) -> Sequence[Branches]:
    return rows


RULES = rules(_every)
