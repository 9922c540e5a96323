"""Products by rows are what MATMUL and RESCALE give, in TOSA's semantics and in what Vela makes of them for U65."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eqsat.device.binary import compile_binary
from eqsat.device.run import Device
from eqsat.ground.worker import Worker
from eqsat.target import Target
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.ops import evaluate_op, infer
from eqsat.tensor.types import Attrs, GraphError, Type, attrs_of
from eqsat.tosa import dumps
from eqsat.vela.rows import fitting_zero_point, write
from tests.term import Term, graph

#: A factor that is no power of two: Vela treats those of sums of INT32 otherwise.
_SCALE = makers.rescale("INT8", 1958003733, 39, out_zp=5)
ZERO_POINTS = st.sampled_from([-128, -127, -3, 0, 8, 127])


def by_rows(step: int, zps: tuple[int, int], scale: Attrs = _SCALE) -> Attrs:
    return attrs_of({**dict(scale), "in_zp": (zps[0],), "w_zp": (zps[1],), "step": step})


def graphs(n: int, rows: int, columns: int, c: int, attrs: Attrs) -> tuple[TensorGraph, TensorGraph]:
    """As it is written, and as MATMUL, RESCALE and TRANSPOSE."""
    known, inputs = dict(attrs), f"x:INT8[{n},{rows},{c}] y:INT8[{n},{columns},{c}]"
    scale = {k: v for k, v in known.items() if k not in ("step", "w_zp")} | {"in_zp": (0,)}

    def plain(x: Term, y: Term) -> Term:
        product = x.matmul(y.transpose(0, 2, 1), known["in_zp"][0], known["w_zp"][0])
        return product.made("rescale", attrs_of(scale)).transpose(1, 0, 2)

    ours = graph(inputs, lambda x, y: replace(x, n=write(x.g, "matmul_rows", [x.n, y.n], attrs)))
    return ours, graph(inputs, plain)


def values(g: TensorGraph, seed: int) -> list[np.ndarray]:
    """With both limits among them."""
    rng = np.random.default_rng(seed)
    choice = [-128, 127, *rng.integers(-128, 128, 3)]
    return [rng.choice(choice, g.type(i).shape).astype(np.int8) for i in g.inputs]


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(*[st.integers(1, 5)] * 4), st.integers(1, 4), st.tuples(ZERO_POINTS, ZERO_POINTS), st.integers(0, 2**32)
)
def test_it_is_a_product_and_its_rescale(sizes: tuple, step: int, zps: tuple[int, int], seed: int) -> None:
    attrs = by_rows(step, zps)
    ours, plain = graphs(*sizes, attrs)
    xs = values(ours, seed)
    (want,) = plain.evaluate(xs)
    np.testing.assert_array_equal(ours.evaluate(xs)[0], want)
    made = infer("matmul_rows", attrs, [ours.type(i) for i in ours.inputs])
    assert made == ours.type(ours.outputs[0])
    np.testing.assert_array_equal(evaluate_op("matmul_rows", attrs, xs, made), want)


@given(st.integers(-128, 127), st.integers(-128, 127))
def test_products_are_int16(zero_point: int, other: int) -> None:
    fitting = fitting_zero_point(zero_point, other)
    assert max((a - fitting) * (b - other) for a in (-128, 127) for b in (-128, 127)) <= 32767
    assert min((a - fitting) * (b - other) for a in (-128, 127) for b in (-128, 127)) >= -32768
    if all(abs((a - zero_point) * (b - other)) <= 32767 for a in (-128, 127) for b in (-128, 127)):
        assert fitting == zero_point


def test_operands_must_fit() -> None:
    with pytest.raises(GraphError, match="transpose"):
        infer("matmul_rows", by_rows(1, (0, 0)), [Type((2, 3, 4), "INT8"), Type((2, 3, 5), "INT8")])


@pytest.mark.parametrize("zps", [(3, -5), (-128, 8), (8, -128)])
@pytest.mark.parametrize("sizes, step", [((4, 8, 16, 12), 3), ((2, 6, 5, 32), 1), ((1, 1, 7, 16), 1)])
def test_vela_compiles_it_rightly(sizes: tuple, step: int, zps: tuple[int, int], worker: Worker) -> None:
    ours, _ = graphs(*sizes, by_rows(step, zps))
    samples = [values(ours, seed) for seed in range(4)]
    device = Device(compile_binary(dumps(ours), Target.of("ethos-u65-256"), worker))
    (got,) = device.run([np.stack(x) for x in zip(*samples, strict=True)])
    want = np.stack([ours.evaluate(x)[0] for x in samples])
    np.testing.assert_array_equal(np.ascontiguousarray(got).view(np.int8).reshape(want.shape), want)
