"""How near the closed form is to what Vela compiles, on every accelerator."""

from __future__ import annotations

import numpy as np
import pytest

from cost_models.analytic import Analytic
from cost_models.closed_form import estimate_cycles, is_sparse, parts, price_copy
from cost_models.command_stream import price
from cost_models.protocol import Unit
from eqsat.ground.worker import Pool
from eqsat.target import ACCELERATORS, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Const, Type
from eqsat.vela.compile import compile_graph
from tests.graphs import TARGETS, channel_shuffle, conv_graph, transposed_relus
from tests.term import graph
from tests.unit_graph import total, units_of


def tower(size: int, width: int, kernel: int) -> TensorGraph:
    """Three convolutions."""
    image = f"x:INT8[1,{size},{size},8]"
    return graph(image, lambda x: x.layer(width, kernel, seed=1).layer(width, seed=2).layer(2 * width, 3, seed=3))


GRAPHS = (
    conv_graph(),
    channel_shuffle(),
    # a linear layer over 64 rows, as batches
    graph("x:INT8[1,64,48]", lambda x: x.reshape(64, 1, 1, 48).layer(96).layer(32, seed=5)),
    # a convolution's result in NCHW, and one that must be moved by itself
    graph("x:INT8[1,24,24,16]", lambda x: (x.layer(32, 3).nchw(), x.transpose(0, 2, 1, 3))),
    *(tower(*how) for how in ((16, 24, 3), (24, 48, 5), (32, 32, 3), (8, 96, 1))),
)


@pytest.mark.parametrize("target", TARGETS)
def test_totals_are_near_the_price_of_the_commands(target: str, pool: Pool) -> None:
    """Nearly in its order; half of the graphs within 6 % and all but one within a fifth.

    The one is a TRANSPOSE to two channels on U85.

    On U65 small graphs wait for DRAM, where their inputs and outputs lie; prices are those of inner tensors.
    """
    model = Analytic(Target.of(target))
    truth = np.array([price(compile_graph(g, model.target, pool).stream, model.target).cycles for g in GRAPHS])
    predicted = np.array([total(model, g) for g in GRAPHS])
    error = np.abs(predicted / truth - 1)
    assert "u65" in target or np.median(error) <= 0.06 and np.sort(error)[-2] <= 0.2
    ranks = [np.argsort(np.argsort(v)) for v in (truth, predicted)]
    assert np.corrcoef(*ranks)[0, 1] >= 0.9


@pytest.mark.parametrize("target", TARGETS)
def test_a_dilated_convolution_costs_what_its_pieces_do(target: str, pool: Pool) -> None:
    """Vela makes one of each phase, which has a share of the result."""
    model = Analytic(Target.of(target))
    g = graph("x:INT8[1,32,32,16]", lambda x: x.layer(16, 3, dilation=4))
    truth = price(compile_graph(g, model.target, pool).stream, model.target).cycles
    assert 0.5 < total(model, g) / truth < 1.5


@pytest.mark.parametrize("dilation", [(2, 2), (1, 3), (2, 4), (4, 2), (4, 4)])
@pytest.mark.parametrize("target", TARGETS)
def test_the_pieces_of_a_dilated_convolution_are_those_of_vela(
    target: str, dilation: tuple[int, int], pool: Pool
) -> None:
    """Where one dilation is above 2, Vela takes the phases of both axes apart."""
    rows, columns = dilation
    window = {"pad": (rows, rows, columns, columns), "dilation": dilation}
    made = lambda x: x.conv(np.ones((16, 3, 3, 16)), np.zeros(16), **window).rescale("INT8")  # noqa: E731
    g = graph("x:INT8[1,16,16,16]", made)
    pieces = [row for row in compile_graph(g, Target.of(target), pool).rows if row.operator == "Conv2D"]
    (unit,) = (u for u in units_of(g).values() if u.op == "conv2d")
    assert parts(unit)[1] == len(pieces)


@pytest.mark.parametrize("accelerator", ACCELERATORS)
def test_a_graph_and_a_copy_are_near_vela_on_every_accelerator(accelerator: str, pool: Pool) -> None:
    """The graph within a factor of two of its calibrated price; the benchmark measures how near."""
    target, relus = Target.of(accelerator), transposed_relus()
    truth = price(compile_graph(relus, target, pool).stream, target).cycles
    assert 0.5 < total(Analytic(target), relus) / truth < 2
    g = graph("x:INT8[1,64,64,16]", lambda x: x.clamp(-100, 100))
    (unit,) = units_of(g).values()
    assert 0.4 < price_copy(unit, target) / compile_graph(g, target, pool).cycles < 2.2


def test_a_memory_of_half_the_bandwidth_takes_twice_as_long() -> None:
    summand = Type((1, 64, 64, 16), "INT32")
    unit = Unit((("add", ()),), (summand, summand), summand)
    fast, slow = (
        estimate_cycles(unit, Target.of("ethos-u85-2048", system_config=f"Ethos_U85_SYS_DRAM_{which}"))
        for which in ("High", "Mid")
    )
    assert slow == pytest.approx(2 * fast, rel=0.01)


@pytest.mark.parametrize(("channels", "expected"), [((1, 0, 2, 0), True), ((0, 0, 1, 2), True), ((1, 2, 0, 3), False)])
def test_weights_are_sparse_if_at_most_two_of_every_four_channels_are_not_zero(
    channels: tuple[int, ...], expected: bool
) -> None:
    weights = np.zeros((2, 1, 1, 8), np.int8)
    weights[1, 0, 0, 4:] = channels
    assert is_sparse(Const(weights, "INT8")) is expected
    assert not is_sparse(Const(np.ones((2, 1, 1, 8), np.int8), "INT8"))
