"""Another operator for the same integers: sums in one step, planes interleaved by a convolution,
ARGMAX along a better axis."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps, loads
from tests.graphs import conv, finish
from tests.rules.cases import Cases
from tests.rules.checks import check, fires, only, ops_of_output, optimized

CASES = Cases()
PLAIN = ("move-move", "move-identity")


@pytest.mark.parametrize("op", ["reduce_sum", "reduce_max", "reduce_min"])
@pytest.mark.parametrize("axes", [(1, 2), (2, 1), (0, 1), (2, 3)])
def test_two_reductions_as_one(op, axes):
    g = TensorGraph()
    x = g.add_input("x", (2, 3, 4, 2), "INT32" if op == "reduce_sum" else "INT8")
    for axis in axes:
        x = g.add(op, (x,), axis=axis, **({} if op == "reduce_sum" else {"nan_mode": 1}))
    g.outputs = [x]
    assert fires(g, "reduce-reduce", *PLAIN)


@pytest.mark.parametrize(
    ("first", "second", "axes"),
    [("reduce_max", "reduce_max", (1, 3)), ("reduce_max", "reduce_min", (1, 2)), ("reduce_max", "reduce_max", (2, 2))],
)
def test_axes_apart_and_reductions_of_two_kinds_stay(first, second, axes):
    g = TensorGraph()
    x = g.add_input("x", (2, 3, 4, 2), "INT8")
    g.outputs = [g.add(second, (g.add(first, (x,), axis=axes[0], nan_mode=1),), axis=axes[1], nan_mode=1)]
    assert not fires(g, "reduce-reduce", *PLAIN)


@pytest.mark.parametrize("dtype", ["INT8", "INT16"])
@pytest.mark.parametrize("shape", [(1, 3, 4, 6), (1, 2, 5, 2), (1, 8, 4, 4), (3, 32), (1, 3, 1, 50)])
def test_planes_to_pixels_as_a_convolution(shape, dtype):
    g = TensorGraph()
    x = g.add_input("x", shape, dtype)
    perms = (0, 2, 3, 1) if len(shape) == 4 else (1, 0)
    g.outputs = [g.add("transpose", (x,), perms=perms)]
    assert fires(g, "planes-conv", *PLAIN)


@pytest.mark.parametrize(
    ("shape", "perms", "dtype"),
    [
        ((1, 9, 4, 4), (0, 2, 3, 1), "INT8"),
        ((1, 3, 4, 6), (0, 2, 3, 1), "INT32"),
        ((1, 3, 4, 6), (0, 2, 1, 3), "INT8"),
        ((1, 3, 1, 17), (0, 2, 3, 1), "INT8"),
    ],
)
def test_many_planes_other_dtypes_orders_and_prime_rows_stay(shape, perms, dtype):
    g = TensorGraph()
    g.outputs = [g.add("transpose", (g.add_input("x", shape, dtype),), perms=perms)]
    assert not fires(g, "planes-conv", *PLAIN)


@pytest.mark.parametrize("shape", [(1, 4, 3, 5), (6,), (2, 3)])
@pytest.mark.parametrize("factor, shift", [(1 << 30, 19), (1 << 30, 29), (3 << 20, 20), (32767, 2), (1 << 30, 16)])
def test_widening_by_an_integer_as_a_product(shape, factor, shift):
    g = TensorGraph()
    x = g.add_input("x", shape, "INT16")
    g.outputs = [g.add_with("rescale", [x], makers.rescale("INT32", factor, shift))]
    fits = factor % (1 << shift) == 0 and factor >> shift <= 32767
    assert fires(g, "widening-product") == fits
    if fits:
        frozen = check(g, only("widening-product"))
        assert ops_of_output(frozen) == {"rescale", "mul"}


@pytest.mark.parametrize(
    "dtype, attributes",
    [
        ("INT8", makers.rescale("INT32", 1 << 30, 26)),
        ("INT16", makers.rescale("INT32")),  # by one
        ("INT16", makers.rescale("INT32", (1 << 30) + 1, 19)),  # no integer
        ("INT16", makers.rescale("INT32", [1 << 30] * 5, [19] * 5)),
        ("INT16", makers.rescale("INT32", 1 << 30, 19, input_unsigned=True)),
        ("INT16", makers.rescale("INT16", 1 << 30, 29)),
    ],
)
def test_other_rescales_are_no_product(dtype, attributes):
    g = TensorGraph()
    g.outputs = [g.add_with("rescale", [g.add_input("x", (2, 5), dtype)], attributes)]
    assert not fires(g, "widening-product")


@pytest.mark.parametrize("kernel, stride, pad", [((5, 5), (1, 1), (2, 2, 2, 2)), ((9, 5), (1, 2), (4, 4, 2, 1))])
def test_a_large_max_pool_in_two_steps(kernel, stride, pad):
    g = TensorGraph()
    x = g.add_input("x", (2, 12, 12, 3), "INT8")
    g.outputs = [g.add_with("max_pool2d", (x,), makers.max_pool(kernel, stride=stride, pad=pad))]
    found = check(g, only("pool-separable"))
    assert found.saturation.matches["pool-separable"] == 1 and found.n_nodes == 4


@pytest.mark.parametrize("kernel, stride", [((3, 3), (1, 1)), ((6, 6), (6, 6)), ((1, 9), (1, 1)), ((12, 12), (1, 1))])
def test_small_flat_and_strided_pools_stay(kernel, stride):
    g = TensorGraph()
    x = g.add_input("x", (2, 12, 12, 3), "INT8")
    g.outputs = [g.add_with("max_pool2d", (x,), makers.max_pool(kernel, stride=stride))]
    assert not fires(g, "pool-separable")


@CASES.fires_on("argmax-outward")
def _(draw):  # ties are common among few values: the first of them counts
    g = TensorGraph()
    shape = draw(st.lists(st.integers(2, 4), min_size=2, max_size=4).map(tuple))
    x = g.add(
        "minimum", (g.add_input("x", shape, "INT32"), g.add_const(np.full((1,) * len(shape), 1), "INT32")), nan_mode=1
    )
    return g, g.add("argmax", (x,), axis=len(shape) - 1, nan_mode=1)


@CASES.spares("argmax-outward")
def _(draw):  # it is outside already, or alone
    g = TensorGraph()
    shape, axis = draw(st.sampled_from([((2, 3, 4), 1), ((5,), 0), ((3, 1), 1)]))
    return g, g.add("argmax", (g.add_input("x", shape, "INT8"),), axis=axis, nan_mode=1)


test_fires_and_is_exact, test_spares_near_misses = CASES.tests(fires_on=6, spares=3)


@pytest.mark.slow
def test_a_large_max_pool_gains(tmp_path: Path) -> None:
    """Calibrated cycles of 5x5 on (1, 32, 32, 32): 52,940 -> 25,176."""
    g = TensorGraph()
    x = g.add_input("x", (1, 32, 32, 32), "INT8")
    g.outputs = [g.add_with("max_pool2d", (x,), makers.max_pool((5, 5), pad=(2, 2, 2, 2)))]
    g.output_names = ["y"]
    found = optimized(g, "ethos-u55-128", tmp_path)
    assert found.calibrated < 0.75 * found.explicit_calibrated


@pytest.mark.slow
def test_argmax_over_channels_gets_a_transpose_in_front(tmp_path) -> None:
    """Segmentation: a convolution, then the largest channel of each pixel."""
    g = TensorGraph()
    x = conv(g, g.add_input("x", (1, 16, 20, 8), "INT8"), 21, 3)
    finish(g, g.add("argmax", (x,), axis=3, nan_mode=1))
    result = optimize_tosa(
        dumps(g), Target.of("ethos-u85-256"), options=Options(time_limit=2, cache=tmp_path / "prices")
    )
    assert result.verified and result.calibrated < 0.5 * result.explicit_calibrated
    assert loads(result.tosa).op_counts()["transpose"] == 1
