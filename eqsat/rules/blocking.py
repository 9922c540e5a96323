"""Rules that replace a convolution by an equal one of another form (`eqsat/tensor/blocking.py`): on blocks of pixels,
on parts of pixels, without dilation, in phases, or without transposition.

The NPU runs strides above 3 and dilations above 2 as several convolutions, and it uses its entire MAC array only if
there are enough channels.
Which form is fastest depends on the family of the NPU and on the neighbouring operators.
Therefore there are many forms, and `rules(choose)` makes the rules with a function that keeps the few forms that can be
fastest.
The function for a target is in `eqsat/options/spellings.py`.
`RULES` do not depend on a target and keep the forms with the fewest multiplications.
The other families rewrite the data movements before and after a convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Annotated, Any, NamedTuple

import numpy as np

from eqsat.egraph.attributes import Call, LeafValue
from eqsat.egraph.externs import extern
from eqsat.egraph.kinds import Constant, Convolution, Slice, Value, such
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import let, symbols
from eqsat.rules.slicing import SliceOrPad
from eqsat.rules.weights import MovedConvolution
from eqsat.tensor.blocking import ConstantConvolution, Spelling
from eqsat.tensor.movement import Move
from eqsat.tensor.ops import infer
from eqsat.tensor.types import Shape, Type, attrs_of

#: Numbers of strides per block; blocks smaller than a stride are also tried.
_BLOCKS = (1, 2, 4, 8)
#: Numbers of parts into which the channels of a pixel are divided; each part is read as a separate pixel.
_PARTS = (2, 3, 4)
#: Maximum number of forms of one convolution that are kept.
MOST = 3
#: `_MOST_CHANNELS`: maximum number of channels of a block.
#: `_MOST_WEIGHTS`: maximum number of weights of a kernel.
#: `_MOST_WORK`: maximum number of multiplications, as a multiple of all original weights at each position of the input.
_MOST_CHANNELS, _MOST_WEIGHTS, _MOST_WORK = 1024, 1 << 21, 9
#: Maximum number of channels of a depthwise convolution that is tried as a CONV2D with zeros.
#: With more channels, the CONV2D is never faster.
_MOST_DEPTHWISE_CHANNELS = 16

Weights = Annotated[
    LeafValue, such("INT8 constant", Constant, lambda leaf: leaf.is_const and leaf.node.dtype == "INT8")
]
#: A convolution that these rules have not made.
Given = Annotated[Call, such("given convolution", Convolution, lambda call: not call.made)]


@dataclass(frozen=True, slots=True, eq=False)
class Spelled:
    """One form of a convolution, with its operator and constants as the e-graph stores them."""

    call: Call
    weights: LeafValue
    bias: LeafValue
    spelling: Spelling

    @property
    def operand(self) -> Shape:
        """The shape of the convolution's input, [N, H, W, C]."""
        return self.spelling.read.out_shape

    @property
    def result(self) -> Shape:
        """The shape of the convolution's result, [N, H, W, C]."""
        return self.spelling.write.in_shape

    @property
    def is_whole(self) -> bool:
        """Whether nothing is appended before the convolution and nothing is cut off after it."""
        return not any(self.spelling.appended) and not self.spelling.has_surplus

    @property
    def is_viewed(self) -> bool:
        """Whether there are only views before and after the convolution."""
        return self.is_whole and self.spelling.read.is_view and self.spelling.write.is_view

    @property
    def divides_channels(self) -> bool:
        """Whether its pixels are parts of the original pixels, which is faster on some targets only."""
        return self.is_viewed and self.operand[-1] < self.spelling.read.in_shape[-1]

    @property
    def moves_nothing(self) -> bool:
        """Whether its input and result are the original tensors."""
        return self.is_whole and self.spelling.read.is_identity and self.spelling.write.is_identity

    @property
    def cut(self) -> Call:
        """The SLICE that removes surplus results."""
        n, *_, channels = self.spelling.write.out_shape
        return Call("slice", attrs_of({"start": (0, 0, 0, 0), "size": (n, *self.spelling.results, channels)}))

    def after(self, before: Call) -> Respelled:
        """Returns this form for an input that goes through `before`, a SLICE or PAD."""
        return Respelled(self.cut, self.spelling.write, self.call, self.weights, self.bias, self.spelling.read, before)


class Respelled(NamedTuple):
    """A convolution between two movements, with a SLICE after them and a SLICE or PAD before them."""

    after: Slice
    write: Move
    conv: Convolution
    weights: LeafValue
    bias: LeafValue
    read: Move
    before: SliceOrPad

    def graph(self: Any, x: Any) -> Any:
        """Builds this small graph on x."""
        return self.after(self.write(self.conv(self.read(self.before(x)), self.weights, self.bias)))


#: Returns the forms to offer, for (convolution, type of its operand, weights, bias, its forms).
Choose = Callable[[Call, Type, LeafValue, LeafValue, Sequence[Spelled]], Sequence[Spelled]]


def spellings(call: Call, x: Type, w: LeafValue, b: LeafValue) -> list[Spelled]:
    """Returns all forms of a convolution within the bounds of this module; their added weights are zeros."""
    weights, attributes = w.data, dict(call.attrs)
    out = prod(weights.shape[2:]) if call.op == "depthwise_conv2d" else weights.shape[0]
    conv = ConstantConvolution(call.op, x.shape, weights, np.broadcast_to(b.data, (out,)), attributes)
    made = (s for s in _every(conv) if s is not None and prod(s.weights_shape) <= _MOST_WEIGHTS)
    work = _work(weights.shape, x.shape)
    kept = {k: v for k, v in attributes.items() if k not in ("stride", "pad", "dilation", "out_pad")}
    return [
        Spelled(
            Call(s.op, attrs_of({**kept, **s.attributes}), made=True),
            LeafValue.constant(s.weights, w.node.dtype),
            LeafValue.constant(s.bias, b.node.dtype),
            s,
        )
        for s in made
        if call.op == "transpose_conv2d" or _work(s.weights_shape, s.write.in_shape) <= _MOST_WORK * work
    ]


def _every(conv: ConstantConvolution) -> Iterator[Spelling | None]:
    if conv.op == "transpose_conv2d":
        yield conv.transposed()
        return
    height, width = conv.attributes["dilation"]
    for dilation in ((h, w) for h in range(1, height + 1) for w in range(1, width + 1)):
        if dilation != (height, width):
            yield conv.undilated(dilation)
    yield conv.in_columns()
    yield conv.phased()
    yield conv.stacked()
    for parts in _PARTS:
        yield conv.divided(parts)
    is_depthwise, channels = conv.op == "depthwise_conv2d", conv.shape[-1]
    if is_depthwise and channels > _MOST_DEPTHWISE_CHANNELS:
        return
    along_h, along_w = (_blocks(s, n) for s, n in zip(conv.attributes["stride"], conv.shape[1:3], strict=True))
    for block in ((h, w) for h in along_h for w in along_w):
        if (block != (1, 1) or is_depthwise) and prod(block) * channels <= _MOST_CHANNELS:
            yield conv.blocked(block)


def _blocks(stride: int, size: int) -> list[int]:
    """Returns block sizes along an axis of `size` elements: multiples of the stride, its divisors, and 1."""
    found = {1, *(k * stride for k in _BLOCKS), *(k for k in range(2, stride) if stride % k == 0)}
    return sorted(b for b in found if b <= max(1, size))


def _work(weights: Shape, result: Shape) -> int:
    """Returns the number of multiplications: all weights, at each position of H and W of [N, H, W, C]."""
    return prod(weights) * prod(result[1:3])


@extern
def adds_zeros(call: Convolution, x: Type) -> bool:
    """Tells whether a weight of 0 adds nothing to a convolution of INT8 or INT16 values."""
    return call.attr("w_zp") == (0,) and x.dtype in ("INT8", "INT16")


@extern
def moves_nothing(p: Spelled) -> bool:
    """Tells whether a form reads and writes the original tensors."""
    return p.moves_nothing


@extern
def has_whole_blocks(p: Spelled) -> bool:
    """Tells whether a form reads and writes other tensors, in which all blocks are complete."""
    return p.is_whole and not p.moves_nothing


@extern
def has_partial_blocks(p: Spelled) -> bool:
    """Tells whether the input or the result of a form has a block that is not complete."""
    return not p.is_whole


def _longer(p: Spelled, cut: Call) -> Call:
    """Returns a slice with the elements that a form appends to it."""
    more = (0, *p.spelling.appended, 0)
    return cut.with_attrs(size=tuple(a + m for a, m in zip(cut.attr("size"), more, strict=True)))


@extern
def continues(p: Spelled, cut: Slice, whole: Type) -> bool:
    """Tells whether the tensor before a slice has the elements that a form appends, which may have any value."""
    longer = _longer(p, cut)
    ends = (a + n for a, n in zip(longer.attr("start"), longer.attr("size"), strict=True))
    fits = all(end <= n for end, n in zip(ends, whole.shape, strict=True))
    return any(p.spelling.appended) and fits and not p.spelling.appended_is_padding


@extern
def in_place(p: Spelled) -> tuple[Convolution, LeafValue, LeafValue]:
    """Returns the convolution of a form, its weights and its bias."""
    return p.call, p.weights, p.bias


@extern
def between(p: Spelled) -> MovedConvolution:
    """Returns the convolution of a form between its movements."""
    return MovedConvolution(p.spelling.write, p.call, p.weights, p.bias, p.spelling.read)


@extern
def padded(p: Spelled, call: Convolution) -> Respelled:
    """Returns the convolution of a form after a PAD that completes the last block, and before a SLICE that removes
    surplus results."""
    rows, columns = p.spelling.appended
    return p.after(Call("pad", attrs_of({"pads": (0, 0, 0, rows, 0, columns, 0, 0), "value": call.attr("in_zp")})))


@extern
def of_longer(p: Spelled, cut: Slice) -> Respelled:
    """Returns the convolution of a form that reads a larger slice, which completes the last block without a PAD."""
    return p.after(_longer(p, cut))


def rules(choose: Choose) -> list[Rule]:
    """Returns the rules of the family, with the forms that `choose` keeps."""

    @extern
    def spelling(call: Given, x: Type, w: Weights, b: Constant) -> list[Spelled]:
        """Returns the chosen forms of a convolution."""
        return list(choose(call, x, w, b, spellings(call, x, w, b)))

    f, cut = symbols("f", Given), symbols("cut", Slice)
    x, w, b = symbols("x", Value), symbols("w", Weights), symbols("b", Constant)
    zeros, p, of_cut = adds_zeros(f, x), spelling(f, x, w, b), spelling(f, cut(x), w, b)
    make = partial(rule, family="blocking")
    return [
        make(
            "spelled-conv-same",
            f(x, w, b),
            let(in_place(p), lambda g, v, d: g(x, v, d)),
            where=(zeros, moves_nothing(p)),
        ),
        make("spelled-conv-whole", f(x, w, b), between(p)(x), where=(zeros, has_whole_blocks(p))),
        make("spelled-conv", f(x, w, b), padded(p, f)(x), where=(zeros, has_partial_blocks(p))),
        make(
            "spelled-conv-slice",
            f(cut(x), w, b),
            of_longer(of_cut, cut)(x),
            where=(zeros, continues(of_cut, cut, x)),
        ),
    ]


def _fewest(call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]) -> Sequence[Spelled]:
    """Returns the forms with the fewest multiplications, and with less than twice those of the convolution.

    So no 1x1 convolution of blocks is among them, which has as many times more as there are pixels in a block.
    """
    limit = 2 * _work(w.node.shape, infer(call.op, call.attrs, (x, w.type, b.type)).shape)
    works = [_work(s.spelling.weights_shape, s.result) for s in found]
    kept = [k for k, s in enumerate(found) if works[k] < limit and not s.divides_channels]
    return [found[k] for k in sorted(kept, key=works.__getitem__)[:MOST]]


RULES = rules(_fewest)
