"""Weight absorption and other operators: each rule fires, is exact, and leaves its near misses alone."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.rules.weights import channel_order
from eqsat.tensor.movement import Move
from tests.rules import cases
from tests.rules.cases import convolved, narrowed
from tests.sweeps import examples
from tests.term import Term


@settings(max_examples=examples(60), deadline=None)
@given(st.permutations(range(4)), st.sampled_from([(1, 2, 3), (1, 1, 1), (2, 1, 2)]))
def test_channel_order_is_what_numpy_says(perm, outer):
    split = (int(np.prod(outer)), 2, 3, 2, 2)
    shape = (*outer, int(np.prod(split[1:])))
    m = Move.reshape(shape, split).then(Move.transpose(split, (0, *(p + 1 for p in perm))))
    m = m.then(Move.reshape(m.out_shape, shape))
    order = channel_order(m)
    if m.is_view:
        assert order is None
    else:
        x = np.arange(int(np.prod(shape))).reshape(shape)
        assert np.array_equal(m.apply(x), x[..., list(order)])


def test_a_movement_of_more_than_channels_or_to_rank_0_is_no_channel_order():
    assert channel_order(Move.transpose((1, 4, 4, 8), (0, 2, 1, 3))) is None
    assert channel_order(Move.transpose((1, 4, 4, 8), (0, 3, 1, 2))) is None
    assert channel_order(Move.reshape((1, 1), ())) is None


def depth_to_space(x: Term, r: int) -> Any:
    """PixelShuffle in NHWC, with channels (colour, row, column) as PyTorch has them."""
    n, h, w, c = x.shape
    y = x.reshape(n, h, w, c // (r * r), r, r).transpose(0, 1, 4, 2, 5, 3)
    return y.reshape(n, h * r, w * r, c // (r * r))


def space_to_depth(x: Term, r: int) -> Any:
    n, h, w, c = x.shape
    return x.reshape(n, h // r, r, w // r, r, c).transpose(0, 1, 3, 5, 2, 4).reshape(n, h // r, w // r, c * r * r)


def runs(frozen) -> set[int]:
    """Elements that lie together in the movements of the output's class, besides views."""
    found = frozen.classes[frozen.handle[frozen.source.outputs[0]]]
    return {m.axes[-1][0] if m.axes[-1][1] == 1 else 1 for e in found if (m := e.move) and not m.is_view}


def sums(frozen) -> set[str]:
    """Dtypes of the results of convolutions."""
    return {frozen.types[e.cls].dtype for nodes in frozen.classes for e in nodes if e.op == "conv2d"}


def twice(x: Term) -> Any:
    """Two convolutions, and an exchange of height and width between them."""
    y = cases.exchanged(narrowed(convolved(x, 6, 1, 1, in_zp=3)))
    return narrowed(convolved(y, 5, 1, 1, in_zp=3))


SAME = {"pad": (0, 1, 0, 1), "in_zp": 1}
TABLE = """
pull-convolution     INT8[1,2,3,4] | INT8[1,2,3,6]  narrowed(convolved(shuffled(x, 2), 5, *kernel, in_zp=3))
pull-convolution     INT8[1,2,3,6]   narrowed(convolved(shuffled(x, 3), 5, *kernel, in_zp=3))
pull-convolution     INT8[1,2,3,8]   narrowed(convolved(shuffled(x, 4), 5, *kernel, in_zp=3))
pull-convolution     INT8[1,2,3,4]  narrowed(convolved(x.transpose(0, 3, 1, 2).reshape(1, 1, 1, 24), 5, 1, 1, in_zp=-2))
pull-convolution pull-unary  INT8[1,3,3,6]  narrowed(convolved(shuffled(x), 1, 2, 2, depthwise=True, in_zp=1))
- pull-convolution   INT8[1,2,3,4]   narrowed(convolved(shuffled(x), 2, 1, 1, depthwise=True))   # a multiplier
push-convolution push-unary  INT8[1,2,3,6]  shuffled(narrowed(convolved(x, 6, 2, 2, **SAME)), 3)
push-convolution push-unary  INT8[1,2,3,6]  shuffled(narrowed(convolved(x, 1, 2, 2, depthwise=True, **SAME)), 3)

# channels in the order that a movement keeps
move-conv  INT8[1,2,3,3]  depth_to_space(narrowed(convolved(x, 6 * r, 1, 1, in_zp=3)), r)  runs(frozen) == {1, 6}
conv-move            INT8[1,4,4,3]   narrowed(convolved(space_to_depth(x, 2), 5, 1, 1, in_zp=3))
conv-move            INT8[1,6,6,2]   narrowed(convolved(space_to_depth(x, 3), 5, 1, 1, in_zp=3))
- move-conv          INT8[1,4,4,4]   twice(x)                                                    # no other
- conv-move          INT8[1,4,4,4]   twice(x)

conv-slice           INT8[1,2,3,5]   narrowed(convolved(x.part(*run, 3), 4, 1, 1, in_zp=5))
- conv-slice         INT8[1,2,3,5]   convolved(x.part(1, 1, 1), 4, 1, 1)                         # of rows
slice-convolution    INT8[1,2,3,3]   convolved(x, 5, 2, 2, in_zp=5).part(*run, 3)
order-matrix         INT8[1,2,3,6]   shuffled(x, 3)  sums(frozen) == {'INT32'}
order-matrix         INT16[1,2,3,6]  shuffled(x, 3)  sums(frozen) == {'INT48'}
reduce-pool          INT8[2,3,4]     x.reduce('max', axis)
reduce-pool          INT8[1,2,5,3]   x.reduce('max', 3)
reduce-pool          INT8[1,7]       x.reduce('max', 1)
- reduce-pool        INT32[2,3]      x.reduce('sum', 1)
"""
test_fires_and_is_exact, test_spares_near_misses = cases.of_table(
    globals(), TABLE, beside="move-move", axis=[0, 1], kernel=[(1, 1), (2, 2)], r=[2, 3], run=[(0, 2), (1, 3), (4, 1)]
)
