"""What every cost model owes: prices in order, steps that do the movement, legality, totals of graphs."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import cost_models
from cost_models.analytic import Analytic
from cost_models.cache import PriceCache
from cost_models.closed_form import estimate_cycles, is_sparse, parts, price_copy
from cost_models.command_stream import price
from cost_models.protocol import Unit
from eqsat.ground.files import PluginError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.target import ACCELERATORS, Target
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.types import Const, Steps, Type
from tests.cost_models.test_vela_groups import move
from tests.graphs import TARGETS, channel_shuffle, compile_graph, conv_graph, residual, transposed_relus
from tests.term import graph, inputs, outputs
from tests.unit_graph import total, units_of

EXAMPLE = f"{Path(__file__).parents[2] / 'examples/cost_model.py'}:Roofline"
WITHOUT_VELA = ("op_count", "bytes_moved", "analytic", EXAMPLE)


MODELS = (*WITHOUT_VELA, "vela_groups")


def make(name: str, target: str, pool: Pool | None = None, cache: PriceCache | None = None):
    return cost_models.find(name)(Target.of(target), pool, cache)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_prices_are_finite_and_answered_in_order(name: str, target: str, pool: Pool, prices: PriceCache) -> None:
    model = make(name, target, pool, prices)
    for g in (residual(), transposed_relus(), channel_shuffle()):
        units = list(units_of(g).values())
        found = model.price(units)
        assert [p.steps for p in found] == [u.steps for u in units]
        assert all((p.cycles > 0 or name in WITHOUT_VELA) and 0 <= p.cycles < math.inf for p in found)
        assert [p.cycles for p in model.price(units[::-1])] == [p.cycles for p in found][::-1]
        assert 0 < total(model, g) < math.inf
    assert model.price([]) == []


def made_of(unit: Unit, steps: Steps) -> TensorGraph:
    """The graph of the steps of a movement."""
    (x,) = inputs(f"x:{unit.result.dtype}{[*unit.move.in_shape]}")
    for op, attrs in steps:
        x = x.made(op, attrs)
    return outputs(x)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_a_movement_gets_steps_that_do_it(name: str, target: str, pool: Pool, prices: PriceCache) -> None:
    for u in (
        move((1, 8, 6, 16), (0, 3, 1, 2)),
        move((2, 3, 4, 16), (3, 1, 2, 0)),
        move((6, 8, 4), (0, 2, 1), "INT16"),
    ):
        (priced,) = make(name, target, pool, prices).price([u])
        assert 0 <= priced.cycles < math.inf
        g = made_of(u, priced.steps)
        x = np.arange(u.result.elements).astype(u.result.dtype.lower()).reshape(u.move.in_shape)
        assert np.array_equal(g.evaluate([x])[0], u.move.apply(x))
        assert compile_graph(g, Target.of(target), pool).cycles > 0


@pytest.mark.parametrize("name", MODELS)
def test_what_the_guards_forbid_has_no_price(name: str, pool: Pool, prices: PriceCache) -> None:
    for target in TARGETS:
        (priced,) = make(name, target, pool, prices).price([move((1, 4, 4, 8), (0, 3, 1, 2), "INT32")])
        assert math.isinf(priced.cycles) == (target != "ethos-u85-256")
    (priced,) = make(name, "ethos-u85-256", pool, prices).price([move((1, 4, 4, 8), (0, 3, 1, 2), "INT48")])
    assert math.isinf(priced.cycles)


def test_counts_and_bytes_say_that_they_are_no_cycles() -> None:
    relus = transposed_relus()
    count, moved = make("op_count", "ethos-u55-128"), make("bytes_moved", "ethos-u55-128")
    assert not count.in_cycles and not moved.in_cycles and make("analytic", "ethos-u55-128").in_cycles
    assert math.floor(total(count, relus)) == 2  # transposes
    (unit,) = [u for u in units_of(relus).values() if u.op == "conv2d" and u.result.shape[-1] == 16]
    assert moved.cycles(unit) == 16 * 16 * 24 + 4 * 16 * 16 * 16 + 16 * 24 + 4 * 16


def test_memories_come_from_the_ini_file(tmp_path: Path) -> None:
    from cost_models.machine import hardware_of

    default = hardware_of(Target.of("ethos-u55-128"))
    assert (default.activations.bandwidth, default.constants.bandwidth) == (8, 1)  # 64 bits; an eighth of that
    ini = tmp_path / "own.ini"
    ini.write_text(
        "[System_Config.Slow]\naxi0_port=Sram\naxi1_port=Dram\n"
        "Sram_clock_scale=0.5\nSram_burst_length=32\nSram_read_latency=9\nDram_clock_scale=0.25\nDram_burst_length=64\nDram_read_latency=99\n"
        "[Memory_Mode.Base]\nconst_mem_area=Axi1\narena_mem_area=Axi0\n[Memory_Mode.Mine]\ninherit=Memory_Mode.Base\n"
    )
    own = hardware_of(Target.of("ethos-u55-128", system_config="Slow", memory_mode="Mine", config=str(ini)))
    assert (own.activations.bandwidth, own.activations.latency, own.constants.bandwidth) == (4, 9, 2)


def test_an_unknown_model_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="vela_groups"):
        cost_models.find("vela_gropus")
    with pytest.raises(
        ValueError, match=r"is no cost model: it is called as \(target, pool of Vela workers, price cache\)"
    ):
        cost_models.find("os.path:basename")
    assert cost_models.find("cost_models.op_count:OpCount") is cost_models.find("op_count")
    assert set(cost_models.available()) >= {"op_count", "bytes_moved", "analytic", "vela_groups"}


def test_a_model_whose_method_is_misspelt_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from cost_models import NodeModel\n\nclass Mine(NodeModel):\n    def cost(self, unit):\n        return 1.0\n"
    )
    name = f"{tmp_path / 'own.py'}:Mine"
    for load in (cost_models.find, lambda name: Options(cost_model=name)):
        with pytest.raises(PluginError, match="own.py:Mine' is no cost model: the class Mine has no method cycles; "):
            load(name)


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
