"""Several convolutions side by side as fewer: convolutions of one tensor, or of slices of it, that a concat puts
together.

ExecuTorch spells a grouped convolution as a slice, a convolution and a RESCALE per group, and one concat. The same
integers come from one convolution whose weights are zero outside the blocks of its groups, or from several that have a
few groups each. Which of these are offered is for a function to choose: `rules(choose)`. For a target that is
`eqsat/options/spellings.py`; `RULES` know no target and take all.

The operands of a concat are walked along from the first one, and all are merged at once: to merge any two neighbours
would take a concat for each way to divide the operands, exponentially many.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import ChannelRescale, Concat, Constant, Conv2d, Index, Kind, Rescale, Slice, Value, Values
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import element, fact, length, let, symbols
from eqsat.rules.slicing import slice_call
from eqsat.tensor.types import Type

#: Most weights of a convolution that is made.
_MOST_WEIGHTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Product:
    """A convolution of the channels of a tensor from `start` up to `end`."""

    call: Call
    weights: LeafValue
    bias: LeafValue
    start: int
    end: int

    @property
    def channels(self) -> int:
        """How many it gives."""
        count: int = self.weights.node.shape[0]
        return count


@dataclass(frozen=True, slots=True)
class Branch:
    """An operand of a concat: a product of a tensor, and its RESCALE, per channel."""

    product: Product
    rescale: Call

    def cut(self, x: Type) -> Call:
        """The slice of the tensor, of type x, that it reads."""
        rows, read = x.shape[:-1], self.product
        return slice_call((*(0 for _ in rows), read.start), (*rows, read.end - read.start))


@dataclass(frozen=True, slots=True)
class Branches:
    """Branches of one tensor in a row, whose convolutions and RESCALEs differ in nothing but constants, channels and
    scales."""

    row: tuple[Branch, ...]


#: (branches as they are, the type of their tensor, other rows that give the same) -> those rows that are worth having.
Choose = Callable[[Branches, Type, Sequence[Branches]], Sequence[Branches]]

#: With one scale or one per channel.
AnyRescale = Annotated[Call, Kind("rescale", Call, ops=frozenset({"rescale"}))]

#: What a value is as a convolution of another, or of channels of it.
product = fact("product", Value, Value, gives=Product)
#: What a value is as a branch of another.
branch = fact("branch", Value, Value, gives=Branch)
#: The first n operands of a concat as branches of a value.
branches = fact("branches", Concat, Values, Value, Index, gives=Branches)
#: That a concat of branches of a value may be one of another row of branches; the empty row, at which its operands are
#: made.
offered = fact("offered", Concat, Values, Value, Branches, Branches)
#: The operands of a concat that gives what some branches of a value do, but for those that are still to come.
parts = fact("parts", Branches, Branches, Value, gives=Values)


def merged(of: Sequence[Branch]) -> Branch:
    """Branches in a row as one: it reads all channels that any of them reads, and has zeros (`w_zp`) where one does not
    read what another does."""
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
    """All other rows that give the same: of as many branches each as divide their number."""
    row = found.row
    sizes = [n for n in range(2, len(row) + 1) if len(row) % n == 0]
    cut = ([row[k : k + n] for k in range(0, len(row), n)] for n in sizes)
    return [Branches(tuple(map(merged, parts))) for parts in cut if max(map(_weights, parts)) <= _MOST_WEIGHTS]


def _weights(of: Sequence[Branch]) -> int:
    """How many weights branches have as one."""
    products = [b.product for b in of]
    height, width = products[0].weights.node.shape[1:3]
    return sum(p.channels for p in products) * height * width * _read(products)[1]


def _read(products: Sequence[Product]) -> tuple[int, int]:
    """First and number of the channels that any of some products reads."""
    start = min(p.start for p in products)
    return start, max(p.end for p in products) - start


@extern
def of_slice(call: Conv2d, cut: Slice, x: Type, w: Constant, b: Constant) -> Product | None:
    """A convolution of some channels of a tensor."""
    start, size = cut.attr("start"), cut.attr("size")
    return Product(call, w, b, start[-1], start[-1] + size[-1]) if size[:-1] == x.shape[:-1] else None


@extern
def of_whole(call: Conv2d, x: Type, w: Constant, b: Constant) -> Product:
    """A convolution of all channels of a tensor."""
    return Product(call, w, b, 0, x.shape[-1])


@extern
def scaled(read: Product, rescale: AnyRescale) -> Branch:
    """A product with its RESCALE, which gets a scale per channel if it has one for all."""
    times = 1 if rescale.attr("per_channel") else read.channels
    scales = {name: rescale.attr(name) * times for name in ("multiplier", "shift")}
    return Branch(read, rescale.with_attrs(per_channel=True, **scales))


@extern
def first_branch(concat: Concat, b: Branch) -> Branches | None:
    """A row of one, where a concat is of channels."""
    return Branches((b,)) if concat.attr("axis") == b.product.weights.data.ndim - 1 else None


@extern
def next_branch(before: Branches, b: Branch) -> Branches | None:
    """One more in a row, where it is like the others."""
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
    """All but the first of a row."""
    return Branches(row.row[1:]) if row.row else None


@extern
def none_of(row: Branches) -> Branches:
    """What is still to come of a row at its end."""
    return Branches(())


@extern
def first_of(row: Branches, x: Type) -> tuple[ChannelRescale, Conv2d, Slice, Constant, Constant] | None:
    """The first of a row: RESCALE, convolution, what it reads of the tensor, weights and bias."""
    if not row.row:
        return None
    b = row.row[0]
    return b.rescale, b.product.call, b.cut(x), b.product.weights, b.product.bias


def rules(choose: Choose) -> list[Rule]:
    """The family. Convolutions that it has made of a graph are not merged again."""
    made: set[Branches] = set()
    answers: dict[tuple[Branches, Type], Sequence[Branches]] = {}

    def forget() -> None:
        made.clear()
        answers.clear()

    @extern
    def fewer(found: Branches, x: Type) -> list[Branches]:
        """Rows of fewer convolutions that give the same."""
        asked = found, x
        if asked not in answers:  # asked again, as for a proof, the answer is the same
            answers[asked] = () if found in made else choose(found, x, plans(found))
            made.update(answers[asked])
        return list(answers[asked])

    conv, cut, concat = symbols("conv", Conv2d), symbols("cut", Slice), symbols("concat", Concat)
    x, y, xs, i = symbols("x", Value), symbols("y", Value), symbols("xs", Values), symbols("i", Index)
    w, b, p, q = symbols("w", Constant), symbols("b", Constant), symbols("p", Branches), symbols("q", Branches)
    plan = fewer(branches(concat, xs, x, length(xs)), x)
    make = partial(rule, family="grouped", forget=forget)
    return [
        make("product-slice", product(conv(cut(x), w, b), x), of_slice(conv, cut, x, w, b)),
        make("product-whole", product(conv(x, w, b), x), of_whole(conv, x, w, b)),
        *(
            make(f"branch-{f.kind.constructor}", branch(f(y), x), scaled(product(y, x), f))
            for f in (symbols("f", ChannelRescale), symbols("f", Rescale))
        ),
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
