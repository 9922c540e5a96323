"""The real interpretation agrees with the integers wherever these do not round, and differs by roundings alone
elsewhere."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from eqsat.ground.worker import Worker
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.real import evaluate
from eqsat.tensor.samples import Domain, domains
from eqsat.tensor.types import GraphError, Type
from eqsat.verification.deviation import deviation, natural
from tests.graphs import add, conv, finish, relu, rescale

CONV = {"stride": (2, 1), "dilation": (1, 2), "local_bound": False, "acc_type": 5, "in_zp": (3,), "w_zp": (0,)}


def inputs(g: TensorGraph, seed: int = 0) -> list[np.ndarray]:
    return natural(domains(g), 1, seed)[0]


def weights(g: TensorGraph, *shape: int) -> int:
    return g.add_const(np.random.default_rng(1).integers(-127, 128, shape), "INT8")


def bias(g: TensorGraph, channels: int) -> int:
    return g.add_const(np.arange(channels) * 100, "INT32")


def conv2d(g: TensorGraph, x: int) -> int:
    return g.add("conv2d", (x, weights(g, 5, 3, 2, 4), bias(g, 5)), pad=(1, 2, 0, 1), **CONV)


def depthwise(g: TensorGraph, x: int) -> int:
    return g.add("depthwise_conv2d", (x, weights(g, 3, 2, 4, 2), bias(g, 8)), pad=(1, 2, 0, 1), **CONV)


def transposed(pad: tuple[int, ...]) -> Callable[[TensorGraph, int], int]:
    return lambda g, x: g.add_with(
        "transpose_conv2d",
        (x, weights(g, 5, 3, 2, 4), bias(g, 5)),
        makers.transpose_conv("INT8", out_pad=pad, stride=(2, 3), in_zp=3),
    )


def matmul(g: TensorGraph, x: int) -> int:
    y = g.add("reshape", (x,), shape=(1, 42, 4))
    return g.add("matmul", (y, g.add("transpose", (y,), perms=(0, 2, 1))), in_zp=(3,), w_zp=(-5,))


def wide(op: str, **attrs) -> Callable[[TensorGraph, int], int]:
    return lambda g, x: g.add(
        op, (rescale(g, x, "INT32", in_zp=7), g.add_const(np.array([[[[3, -4, 5, 6]]]]), "INT32")), **attrs
    )


@pytest.mark.parametrize(
    "build",
    [
        conv2d,
        depthwise,
        transposed((0, 0, 0, 0)),
        transposed((-1, 2, 1, -1)),
        matmul,
        wide("add"),
        wide("sub"),
        wide("mul", shift=(0,)),
        wide("maximum", nan_mode=1),
        wide("greater"),
        lambda g, x: g.add_with("max_pool2d", (x,), makers.max_pool((2, 3), stride=(2, 1), pad=(1, 0, 1, 1))),
        lambda g, x: g.add("reduce_sum", (rescale(g, x, "INT32"),), axis=2),
        lambda g, x: g.add("negate", (x,), in_zp=(2,), out_zp=(2,)),
        lambda g, x: g.add("table", (x,), table=tuple(range(127, -129, -1))),
        lambda g, x: g.add("concat", (relu(g, x, -5), x), axis=3),
        lambda g, x: g.add(
            "avg_pool2d",
            (g.add("tile", (g.add("slice", (x,), start=(0, 0, 0, 0), size=(1, 1, 1, 4)),), multiples=(1, 4, 4, 1)),),
            kernel=(2, 2),
            stride=(1, 1),
            pad=(1, 0, 0, 0),
            in_zp=(2,),
            out_zp=(2,),
            acc_type=1,
        ),
    ],
)
def test_what_does_not_round_is_the_same(build: Callable[[TensorGraph, int], int]) -> None:
    g = TensorGraph()
    finish(g, build(g, g.add_input("x", (1, 7, 6, 4), "INT8")))
    given = inputs(g)
    assert np.allclose(evaluate(g, given)[0].astype(float), g.evaluate(given)[0].astype(float), atol=1e-6)


@pytest.mark.parametrize("build", [lambda g, x: conv(g, x, 8, 3), lambda g, x: add(g, x, relu(g, x, -9))])
def test_one_rounding_is_all_that_differs(build: Callable[[TensorGraph, int], int]) -> None:
    g = TensorGraph()
    finish(g, build(g, g.add_input("x", (1, 8, 8, 16), "INT8")))
    (exact,), (real,) = g.evaluate(inputs(g)), evaluate(g, inputs(g))
    assert 0.4 < np.abs(exact - real).max() <= 0.5 + 1e-6


def test_saturation_inside_is_no_part_of_the_model_unless_it_is_an_activation() -> None:
    def doubled_and_halved(zp: int) -> TensorGraph:
        g = TensorGraph()
        y = rescale(g, g.add_input("x", (1, 256), "INT8"), "INT8", shift=(29,), out_zp=zp)
        return finish(g, rescale(g, y, "INT8", shift=(31,), in_zp=zp))

    x = np.arange(-128, 128).reshape(1, 256)
    assert np.array_equal(evaluate(doubled_and_halved(0), [x])[0], x)
    assert np.array_equal(evaluate(doubled_and_halved(-128), [x])[0], np.clip(x, 0, 127.5))


def test_a_table_is_read_between_its_entries() -> None:
    g = TensorGraph()
    y = rescale(g, g.add_input("x", (4,), "INT8"), "INT8", shift=(31,))
    finish(g, g.add("table", (y,), table=tuple(range(-128, 128))))
    assert evaluate(g, [np.array([1, 2, 3, 5])])[0].tolist() == [0.5, 1, 1.5, 2.5]


def test_bits_have_no_real_meaning(worker: Worker) -> None:
    g = TensorGraph()
    x = g.add_input("x", (1, 4), "INT8")
    finish(g, g.add("bitwise_not", (x,)))
    with pytest.raises(GraphError, match="bitwise_not"):
        evaluate(g, inputs(g))
    same = deviation(g, g, worker, 2)
    assert same.largest == (0,) and same.error_before is None and "not known" in same.text


def test_natural_inputs_fill_the_calibrated_range() -> None:
    (x, b), _ = natural([Domain(Type((100, 100), "INT8")), Domain(Type((50,), "BOOL"))], 2)
    assert (
        x.dtype == np.int8 and 30 < x.std() < 34 and (x == 127).mean() < 1e-3 and b.dtype == bool and 0 < b.mean() < 1
    )


def test_the_deviation_is_per_output(worker: Worker) -> None:
    def two(shift: int) -> TensorGraph:
        g = TensorGraph()
        x = g.add_input("x", (1, 8, 8, 4), "INT8")
        return finish(g, relu(g, x, -20), add(g, x, rescale(g, x, "INT8", shift=(shift,))))

    d = deviation(two(30), two(31), worker, 3)
    assert d.largest[0] == d.mean[0] == 0 < d.mean[1] < d.largest[1]
    assert d.error_before[0] == d.error_after[0] == 0 < d.error_before[1] < 0.6 < d.error_after[1]
