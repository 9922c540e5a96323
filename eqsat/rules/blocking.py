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
from typing import Annotated, Any

import numpy as np

from eqsat.egraph.kinds import Call, Constant, Convolution, LeafValue, Slice, Value, such
from eqsat.egraph.rule import Rule, rule
from eqsat.egraph.terms import extern, let, symbols
from eqsat.rules.slicing import SliceOrPad
from eqsat.tensor.blocking import ConstantConvolution, Spelling
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Shape, Type, attrs_of, occurrences

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


@dataclass(frozen=True, slots=True)
class Spelled:
    """One form of a convolution, with its operator and constants as the e-graph stores them."""

    call: Call
    weights: LeafValue
    bias: LeafValue
    spelling: Spelling

    @property
    def is_whole(self) -> bool:
        """Whether nothing is appended before the convolution and nothing is cut off after it."""
        return not any(self.spelling.appended) and not self.spelling.has_surplus

    @property
    def divides_channels(self) -> bool:
        """Whether its pixels are parts of the original pixels, which is faster on some targets only."""
        read, write = self.spelling.read, self.spelling.write
        return self.is_whole and read.is_view and write.is_view and read.out_shape[-1] < read.in_shape[-1]

    @property
    def cut(self) -> Call:
        """The SLICE that removes surplus results."""
        n, *_, channels = self.spelling.write.out_shape
        return Call("slice", attrs_of({"start": (0, 0, 0, 0), "size": (n, *self.spelling.results, channels)}))


#: A convolution with its weights and bias between two movements.
MovedConvolution = tuple[Move, Convolution, LeafValue, LeafValue, Move]
#: The same with a SLICE after it and a SLICE or PAD before it.
CutConvolution = tuple[Slice, Move, Convolution, LeafValue, LeafValue, Move, SliceOrPad]
#: Returns the forms to offer, for (convolution, type of its operand, weights, bias, its forms).
Choose = Callable[[Call, Type, LeafValue, LeafValue, Sequence[Spelled]], Sequence[Spelled]]


def spellings(call: Call, x: Type, w: LeafValue, b: LeafValue) -> list[Spelled]:
    """Returns all forms of a convolution within the bounds of this module.

    There are none if the zero point of the weights is not 0, because the added weights are zeros.
    """
    if call.attr("w_zp") != (0,):
        return []
    weights, attributes = w.data, dict(call.attrs)
    out = prod(weights.shape[2:]) if call.op == "depthwise_conv2d" else weights.shape[0]
    conv = ConstantConvolution(call.op, x.shape, weights, np.broadcast_to(b.data, (out,)), attributes)
    made = (s for s in _every(conv) if s is not None and prod(s.weights_shape) <= _MOST_WEIGHTS)
    work = _work(weights.shape, x.shape)
    kept = {k: v for k, v in attributes.items() if k not in ("stride", "pad", "dilation", "out_pad")}
    return [
        Spelled(
            Call(s.op, attrs_of({**kept, **s.attributes})),
            LeafValue.constant(s.weights, w.node.dtype),
            LeafValue.constant(s.bias, b.node.dtype),
            s,
        )
        for s in made
        if call.op == "transpose_conv2d" or _work(s.weights_shape, s.write.in_shape) <= _MOST_WORK * work
    ]


def _every(conv: ConstantConvolution) -> Iterator[Spelling | None]:
    if conv.op == "transpose_conv2d":
        yield conv.block_transposed()
        return
    height, width = conv.attributes["dilation"]
    for dilation in ((h, w) for h in range(1, height + 1) for w in range(1, width + 1)):
        if dilation != (height, width):
            yield conv.reduce_dilation(dilation)
    yield conv.in_columns()
    yield conv.split_phases()
    yield conv.stack_phases()
    for parts in _PARTS:
        yield conv.divide_channels(parts)
    is_depthwise, channels = conv.op == "depthwise_conv2d", conv.shape[-1]
    if is_depthwise and channels > _MOST_DEPTHWISE_CHANNELS:
        return
    along_h, along_w = (_blocks(s, n) for s, n in zip(conv.attributes["stride"], conv.shape[1:3], strict=True))
    for block in ((h, w) for h in along_h for w in along_w):
        if (block != (1, 1) or is_depthwise) and prod(block) * channels <= _MOST_CHANNELS:
            yield conv.block(block)


def _blocks(stride: int, size: int) -> list[int]:
    """Returns block sizes along an axis of `size` elements: multiples of the stride, its divisors, and 1."""
    found = {1, *(k * stride for k in _BLOCKS), *(k for k in range(2, stride) if stride % k == 0)}
    return sorted(b for b in found if b <= max(1, size))


def _work(weights: Shape, result: Shape) -> int:
    """Returns the number of multiplications: all weights, at each position of H and W of [N, H, W, C]."""
    return prod(weights) * prod(result[1:3])


def _content(weights: LeafValue) -> bytes:
    """Returns a key of weights that does not change if axes are exchanged or channels reordered."""
    return str(sorted(weights.data.shape)).encode() + occurrences(weights.data).tobytes()


def rules(choose: Choose) -> list[Rule]:
    """Returns the rules of the family, with the forms that `choose` keeps.

    Convolutions that these rules have made for a graph are not rewritten again.
    """
    made: set[bytes] = set()
    answers: dict[tuple[Call, Type, LeafValue, LeafValue], Sequence[Spelled]] = {}

    def forget() -> None:
        made.clear()
        answers.clear()

    def choose_spellings(call: Call, x: Type, w: LeafValue, b: LeafValue) -> Sequence[Spelled]:
        asked = call, x, w, b
        # A proof repeats the call, and must get the same result.
        if asked not in answers:
            if x.dtype not in ("INT8", "INT16") or _content(w) in made:
                return ()
            answers[asked] = choose(call, x, w, b, spellings(call, x, w, b))
            made.update(_content(s.weights) for s in answers[asked])
        return answers[asked]

    @extern
    def regroup(call: Convolution, x: Type, w: Weights, b: Constant) -> list[MovedConvolution]:
        """Returns other convolutions with equal results on complete blocks, each between two movements.

        The rules for movement remove movements that move nothing.
        """
        return [
            (s.spelling.write, s.call, s.weights, s.bias, s.spelling.read)
            for s in choose_spellings(call, x, w, b)
            if s.is_whole
        ]

    def around(s: Spelled, before: Call) -> CutConvolution:
        return s.cut, s.spelling.write, s.call, s.weights, s.bias, s.spelling.read, before

    @extern
    def spell(call: Convolution, x: Type, w: Weights, b: Constant) -> list[CutConvolution]:
        """Returns other convolutions with equal results for an input whose blocks are not all complete.

        A PAD completes the last block of the input, and a SLICE removes surplus results.
        """
        found = []
        for s in (s for s in choose_spellings(call, x, w, b) if not s.is_whole):
            rows, columns = s.spelling.appended
            pad = Call("pad", attrs_of({"pads": (0, 0, 0, rows, 0, columns, 0, 0), "value": call.attr("in_zp")}))
            found.append(around(s, pad))
        return found

    @extern
    def spell_slice(
        call: Convolution, cut: Slice, whole: Type, x: Type, w: Weights, b: Constant
    ) -> list[CutConvolution]:
        """Returns other convolutions with equal results that read a larger slice, so that the last block is complete
        without a PAD.

        The elements that complete the block may have any value.
        """
        found = []
        for s in choose_spellings(call, x, w, b):
            more = (0, *s.spelling.appended, 0)
            size = tuple(a + m for a, m in zip(cut.attr("size"), more, strict=True))
            ends = (a + m for a, m in zip(cut.attr("start"), size, strict=True))
            fits = all(e <= n for e, n in zip(ends, whole.shape, strict=True))
            if any(more) and fits and not s.spelling.appended_is_padding:
                found.append(around(s, cut.with_attrs(size=size)))
        return found

    f, cut = symbols("f", Convolution), symbols("cut", Slice)
    x, w, b = symbols("x", Value), symbols("w", Weights), symbols("b", Constant)
    make = partial(rule, family="blocking", forget=forget)

    def between(after: Any, write: Any, conv: Any, weights: Any, bias: Any, read: Any, before: Any) -> Any:
        return after(write(conv(read(before(x)), weights, bias)))

    return [
        make(
            "spelled-conv-whole",
            f(x, w, b),
            let(regroup(f, x, w, b), lambda write, conv, weights, bias, read: write(conv(read(x), weights, bias))),
        ),
        make("spelled-conv", f(x, w, b), let(spell(f, x, w, b), between)),
        make("spelled-conv-slice", f(cut(x), w, b), let(spell_slice(f, cut, x, cut(x), w, b), between)),
    ]


def _fewest(call: Call, x: Type, w: LeafValue, b: LeafValue, found: Sequence[Spelled]) -> Sequence[Spelled]:
    found = [s for s in found if not s.divides_channels]
    return sorted(found, key=lambda s: _work(s.spelling.weights_shape, s.spelling.write.in_shape))[:MOST]


RULES = rules(_fewest)
