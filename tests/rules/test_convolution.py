"""Convolutions turned, joined and transposed: each rule fires, is exact, and leaves its near misses alone."""

from typing import Any

from hypothesis import assume

from tests.rules import cases
from tests.rules.cases import Drawn, convolved, narrowed
from tests.term import Term


def any_convolution(x: Drawn, *, time: bool = False) -> Any:
    """Plain or depthwise, with its own stride, dilation and pads for H and W; time: along W alone."""
    depthwise, most = x.pick(False, True), 1 if time else 2
    kh, kw = x.number(1, 1 if time else 3), x.number(2 if time else 1, 3)
    pad = (x.number(0, kh - 1), 0, x.number(0, kw - 1), x.number(0, kw - 1))
    window = {"stride": (x.number(1, most), x.number(1, 2)), "dilation": (x.number(1, most), x.number(1, 2))}
    return convolved(x, 2 if depthwise else 4, kh, kw, depthwise=depthwise, pad=pad, in_zp=-3, **window)


def of_a_picture(x: Drawn) -> Any:
    y = any_convolution(x)
    assume(min(y.shape[1:3]) > 1)
    return y


def upsampled(x: Term, *kernel: int, stride: Any = (2, 2), bias: int = 4, **more: Any) -> Any:
    how = {"op": "transpose_conv2d", "stride": stride, "in_zp": 7, **more}
    return narrowed(convolved(x, 4, *(kernel or (2, 2)), bias=bias, **how))


def multiplied(x: Term, by: int, bias: int = 0) -> Any:
    """A depthwise convolution with several output channels for each channel of its input."""
    window = {"pad": (1, 1, 0, 1), "stride": (2, 1), "in_zp": -3}
    return narrowed(convolved(x, by, 3, 2, depthwise=True, bias=bias, **window))


BEFORE, BEHIND = {"stride": (2, 1), "pad": (0, 0, 1, 1)}, {"stride": (2, 1), "pad": (1, 1, 0, 1)}
TABLE = """
push-turn              INT8[1,5,7,3]        exchanged(of_a_picture(x))
pull-turn              INT8[1,4,6,2]        convolved(exchanged(x), 3, 2, 3, pad=(1, 0, 2, 1), dilation=(2, 1), in_zp=4)
- push-turn            INT8[1,3,3,3]        convolved(x, 3, 2, 2, pad=(0, 1, 0, 1)).transpose(*other)
turn-conv              INT8[1,1,7,3]        any_convolution(x, time=True)
- turn-conv            INT8[1,1,1,3] | INT8[1,2,5,3]  convolved(x, 3, 1, 1)    # single pixels and pictures
push-turn-pool         INT8[1,4,6,3]        exchanged(x.largest(2, 3, **BEFORE))
push-turn-pool         INT8[1,4,6,3]        exchanged(x.average(2, 3, in_zp=3, out_zp=3, **BEFORE))
pull-turn-pool         INT8[1,4,6,3]        exchanged(x).largest(2, 3, **BEHIND)
pull-turn-pool         INT8[1,4,6,3]        exchanged(x).average(2, 3, in_zp=3, out_zp=3, **BEHIND)

# one convolution more, and the views on its sides
conv-one-image         INT8[5,1,1,3] | INT8[2,2,3,3]  convolved(x, 2, 1, 1, depthwise=by_channel, in_zp=7)  e_nodes == 7
- conv-one-image       INT8[1,2,3,3]        convolved(x, 2, 1, 1, in_zp=7)                      # is one image
- conv-one-image       INT8[5,2,2,3]        convolved(x, 2, 1, 2, in_zp=7)                      # sees others
- conv-one-image       INT8[5,1,1,3]        convolved(x, 2, 1, 1, pad=(0, 0, 0, 1), in_zp=7)

transpose-conv-phases  INT8[2,3,4,3]        upsampled(x, bias=biases)
push-concat-unary pull-unary transpose-conv-phases  INT8[2,3,4,3]  upsampled(x, bias=biases)
pull-unary transpose-conv-phases  INT8[2,3,4,3]  upsampled(x, bias=biases)
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, 3, 2)                         # overlaps
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, 2, 3)
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, stride=(1, 2))
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, stride=(2, 1))
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, out_pad=(0, 1, 0, 0))
- transpose-conv-phases  INT8[2,3,4,3]      upsampled(x, 3, 3, stride=(3, 3))
halve-multiplier       INT8[1,5,6,3]        multiplied(x, 2)
halve-multiplier       INT8[1,5,6,2]        multiplied(x, 4)
halve-multiplier       INT8[1,5,6,5]        multiplied(x, 6, bias=1)
- halve-multiplier     INT8[1,5,6,3]        multiplied(x, 1)                                    # odd
- halve-multiplier     INT8[1,5,6,2]        multiplied(x, 3)
- halve-multiplier     INT8[1,5,6,1]        multiplied(x, 4)                                    # a single channel

pull-unary             INT32[2,3,4,4]       narrowed(x.reshape(*view), 44)
pull-unary  INT32[1,2,3,8]  narrowed(x.reshape(2, 3, 2, 2, 2).transpose(0, 2, 1, 3, 4).reshape(1, 4, 6, 2), 44)
- pull-unary           INT32[2,3,4]         narrowed(x.reshape(2, 12), 44)                      # rows become channels
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(),
    TABLE,
    beside="move-move move-identity",
    fires_on=25,
    biases=[1, 4],
    by_channel=[False, True],
    other=[(0, 1, 3, 2), (0, 3, 2, 1), (0, 3, 1, 2)],
    view=[(2, 3, 8, 2), (1, 6, 4, 4), (6, 1, 16, 1)],
)
