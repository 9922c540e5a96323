"""Weight absorption and other operators: each rule fires on what it is for, is exact there, and leaves its near misses
alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.rules.weights import channel_order
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from tests.rules.checks import check, conv, cut, fires, only, rescale
from tests.sweeps import examples


def image(channels: int, height: int = 2, width: int = 3, dtype: str = "INT8") -> tuple[TensorGraph, int]:
    g = TensorGraph()
    return g, g.add_input("x", (1, height, width, channels), dtype)


def shuffle(g: TensorGraph, x: int, groups: int) -> int:
    """Channel shuffle in NHWC: view, transpose, view."""
    n, h, w, c = g.nodes[x].shape
    y = g.add("reshape", (x,), shape=(n * h * w, groups, c // groups))
    y = g.add("transpose", (y,), perms=(0, 2, 1))
    return g.add("reshape", (y,), shape=(n, h, w, c))


def narrowed(g: TensorGraph, x: int) -> int:
    """RESCALE per channel to INT8."""
    c = g.nodes[x].shape[-1]
    return rescale(g, x, "INT8", [(1 << 30) + 1000 * i for i in range(c)], [36 + i % 3 for i in range(c)], out_zp=3)


@settings(max_examples=examples(60), deadline=None)
@given(st.permutations(range(4)), st.sampled_from([(1, 2, 3), (1, 1, 1), (2, 1, 2)]))
def test_channel_order_is_what_numpy_says(perm, outer):
    sizes = (2, 3, 2, 2)
    shape = (*outer, int(np.prod(sizes)))
    m = Move.reshape(shape, (int(np.prod(outer)), *sizes)).then(
        Move.transpose((int(np.prod(outer)), *sizes), (0, *(p + 1 for p in perm)))
    )
    m = m.then(Move.reshape(m.out_shape, shape))
    order = channel_order(m)
    if m.is_view:
        assert order is None
    else:
        x = np.arange(int(np.prod(shape))).reshape(shape)
        assert np.array_equal(m.apply(x), x[..., list(order)])


def test_a_movement_of_more_than_channels_is_no_channel_order():
    assert channel_order(Move.transpose((1, 4, 4, 8), (0, 2, 1, 3))) is None
    assert channel_order(Move.transpose((1, 4, 4, 8), (0, 3, 1, 2))) is None


@pytest.mark.parametrize("groups, channels", [(2, 4), (2, 6), (3, 6), (4, 8)])
@pytest.mark.parametrize("kernel", [(1, 1), (2, 2)])
def test_an_order_before_a_convolution(groups, channels, kernel):
    g, x = image(channels)
    g.outputs = [narrowed(g, conv(g, shuffle(g, x, groups), 5, kernel, zp=3))]
    assert fires(g, "pull-convolution", "move-move")


def test_a_flatten_before_a_linear_layer():
    g, x = image(4)
    y = g.add("reshape", (g.add("transpose", (x,), perms=(0, 3, 1, 2)),), shape=(1, 1, 1, 24))
    g.outputs = [narrowed(g, conv(g, y, 5, (1, 1), zp=-2))]
    assert fires(g, "pull-convolution", "move-move")


def depth_to_space(g: TensorGraph, x: int, r: int) -> int:
    """PixelShuffle in NHWC, with channels (colour, row, column) as PyTorch has them."""
    n, h, w, c = g.nodes[x].shape
    y = g.add("reshape", (x,), shape=(n, h, w, c // (r * r), r, r))
    y = g.add("transpose", (y,), perms=(0, 1, 4, 2, 5, 3))
    return g.add("reshape", (y,), shape=(n, h * r, w * r, c // (r * r)))


def space_to_depth(g: TensorGraph, x: int, r: int) -> int:
    n, h, w, c = g.nodes[x].shape
    y = g.add("reshape", (x,), shape=(n, h // r, r, w // r, r, c))
    y = g.add("transpose", (y,), perms=(0, 1, 3, 5, 2, 4))
    return g.add("reshape", (y,), shape=(n, h // r, w // r, c * r * r))


def runs(frozen, slot: int = 0) -> set[int]:
    """Elements that lie together in the movements of an output's class, besides views."""
    found = frozen.classes[frozen.handle[frozen.source.outputs[slot]]]
    return {m.axes[-1][0] if m.axes[-1][1] == 1 else 1 for e in found if (m := e.move) and not m.is_view}


@pytest.mark.parametrize("channels, r", [(3, 2), (2, 3)])
def test_a_convolution_gives_channels_in_the_order_that_a_movement_behind_it_keeps(channels, r):
    g, x = image(3)
    g.outputs = [depth_to_space(g, narrowed(g, conv(g, x, channels * r * r, (1, 1), zp=3)), r)]
    assert fires(g, "move-conv", "move-move")
    assert runs(check(g, only("move-conv", "move-move"))) == {1, channels * r}


@pytest.mark.parametrize("channels, r", [(3, 2), (2, 3)])
def test_a_convolution_reads_channels_in_the_order_that_a_movement_before_it_keeps(channels, r):
    g, x = image(channels, 2 * r, 2 * r)
    g.outputs = [narrowed(g, conv(g, space_to_depth(g, x, r), 5, (1, 1), zp=3))]
    assert fires(g, "conv-move", "move-move")


def test_movements_that_keep_the_order_of_channels_have_no_other():
    g, x = image(4, 4, 4)
    y = g.add("transpose", (narrowed(g, conv(g, x, 6, (1, 1), zp=3)),), perms=(0, 2, 1, 3))
    g.outputs = [narrowed(g, conv(g, y, 5, (1, 1), zp=3))]
    assert not fires(g, "move-conv", "move-move") and not fires(g, "conv-move", "move-move")


@pytest.mark.parametrize("depthwise", [False, True])
def test_an_order_behind_a_convolution(depthwise):
    g, x = image(6)
    c = conv(g, x, 1 if depthwise else 6, (2, 2), zp=1, padding=(0, 1, 0, 1), depthwise=depthwise)
    g.outputs = [shuffle(g, narrowed(g, c), 3)]
    assert fires(g, "push-convolution", "push-unary", "move-move")


def test_an_order_before_a_depthwise_convolution():
    g, x = image(6, 3, 3)
    g.outputs = [narrowed(g, conv(g, shuffle(g, x, 2), 1, (2, 2), zp=1, depthwise=True))]
    assert fires(g, "pull-convolution", "pull-unary", "move-move")


def test_a_depthwise_convolution_with_a_multiplier_is_left_alone():
    g, x = image(4)
    g.outputs = [narrowed(g, conv(g, shuffle(g, x, 2), 2, (1, 1), zp=0, depthwise=True))]
    assert not fires(g, "pull-convolution", "move-move")


@pytest.mark.parametrize("start, size", [(0, 2), (1, 3), (4, 1)])
def test_slices_of_channels_before_and_behind_a_convolution(start, size):
    g, x = image(5)
    g.outputs = [narrowed(g, conv(g, cut(g, x, (0, 0, 0, start), (1, 2, 3, size)), 4, (1, 1), zp=5))]
    assert fires(g, "conv-slice")
    g, x = image(3)
    g.outputs = [cut(g, conv(g, x, 5, (2, 2), zp=5), (0, 0, 0, start), (1, 1, 2, size))]
    assert fires(g, "slice-convolution")


def test_a_slice_of_rows_is_no_slice_of_channels():
    g, x = image(5)
    g.outputs = [conv(g, cut(g, x, (0, 1, 0, 0), (1, 1, 3, 5)), 4, (1, 1), zp=0)]
    assert not fires(g, "conv-slice")


@pytest.mark.parametrize("dtype, sums", [("INT8", "INT32"), ("INT16", "INT48")])
def test_a_shuffle_as_a_matrix(dtype, sums):
    g, x = image(6, dtype=dtype)
    g.outputs = [shuffle(g, x, 3)]
    frozen = check(g)
    assert "order-matrix" in frozen.saturation.matches
    assert {frozen.types[e.cls].dtype for nodes in frozen.classes for e in nodes if e.op == "conv2d"} == {sums}


@pytest.mark.parametrize("shape, axis", [((2, 3, 4), 0), ((2, 3, 4), 1), ((1, 2, 5, 3), 3), ((1, 7), 1)])
def test_a_maximum_as_a_pool(shape, axis):
    g = TensorGraph()
    g.outputs = [g.add_with("reduce_max", (g.add_input("x", shape, "INT8"),), makers.extremum(axis))]
    assert fires(g, "reduce-pool")


def test_a_sum_is_no_pool():
    g = TensorGraph()
    g.outputs = [g.add("reduce_sum", (g.add_input("x", (2, 3), "INT32"),), axis=1)]
    assert not fires(g, "reduce-pool")


def test_all_rules_on_a_shuffle_unit():
    g, x = image(8)
    y = shuffle(g, x, 2)
    a, b = (cut(g, y, (0, 0, 0, s), (1, 2, 3, 4)) for s in (0, 4))
    b = narrowed(g, conv(g, b, 4, (1, 1), zp=0))
    g.outputs = [narrowed(g, conv(g, shuffle(g, g.add("concat", (a, b), axis=3), 2), 4, (1, 1), zp=2))]
    check(g)


def test_a_movement_to_rank_0_orders_no_channels() -> None:
    assert channel_order(Move.reshape((1, 1), ())) is None
