"""Prices of single units: measured in context and in workers, remembered, and never for what must not be."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cost_models.vela_groups
from cost_models.cache import PriceCache
from cost_models.legality import legal_transpose
from cost_models.measuring import _record, _unit, measure
from cost_models.protocol import Fusion, Unit
from cost_models.vela_groups import VelaGroups
from eqsat.ground._child import pack, unpack
from eqsat.ground.process import Limits, WorkerError
from eqsat.ground.worker import Pool
from eqsat.options.options import Options
from eqsat.search.optimizer import optimize_tosa
from eqsat.target import Target
from eqsat.target.family import U55, U65, U85
from eqsat.tensor import makers
from eqsat.tensor.graph import TensorGraph
from eqsat.tensor.movement import Move
from eqsat.tensor.types import Const, Type, attrs_of
from eqsat.tosa import loads
from tests.cost_models import a16w8
from tests.graphs import TARGETS, compile_graph, residual
from tests.term import Term, graph, inputs, outputs
from tests.unit_graph import units_of

pytestmark = pytest.mark.pins


@pytest.fixture(params=TARGETS)
def model(request: pytest.FixtureRequest, pool: Pool, prices: PriceCache) -> VelaGroups:
    return VelaGroups(Target.of(request.param), pool, prices)


def move(shape: tuple[int, ...], perm: tuple[int, ...], dtype: str = "INT8") -> Unit:
    m = Move.transpose(shape, perm)
    return Unit((), (Type(shape, dtype),), Type(m.out_shape, dtype), move=m)


def units(g: TensorGraph) -> list[Unit]:
    return list(units_of(g).values())


def of(g: TensorGraph, *ops: str) -> list[Unit]:
    """The last unit of each operator."""
    return [[u for u in units(g) if u.op == op][-1] for op in ops]


def test_equal_movements_of_different_views_have_one_price(model: VelaGroups) -> None:
    plain = move((36, 4, 16), (0, 2, 1))
    m = plain.move.then(Move.reshape((36, 16, 4), (36, 64)))
    (a, b) = model.price([plain, Unit((), plain.operands, Type(m.out_shape, "INT8"), move=m)])
    assert a.cycles == b.cycles and a.steps != b.steps


def test_the_guards_on_transposes() -> None:
    assert legal_transpose((1, 256, 256, 3, 2), "INT8", U55) and not legal_transpose((1, 257, 256, 3, 2), "INT8", U55)
    assert legal_transpose((1, 257, 256, 3, 2), "INT8", U85)
    assert not legal_transpose((1, 2, 3), "INT32", U65) and legal_transpose((1, 2, 3), "INT32", U85)


@pytest.mark.parametrize(("axis", "channels"), [(2, 16), (3, 16), (3, 8), (3, 5)])
def test_convolutions_write_their_parts_of_a_concat(model: VelaGroups, pool: Pool, axis: int, channels: int) -> None:
    """Nothing is left to copy, wherever a part begins, and the pairs say so."""
    image = "x:INT8[1,8,8,16]"
    g = graph(image, lambda x: x.layer(channels).concat(x.layer(channels, seed=1), axis=axis))
    rows = compile_graph(g, model.target, pool).rows
    assert {r.operator for r in rows} == {"Conv2D"}
    *_, mac, read, concat = units(g)
    assert concat.op == "concat" and read.op == "rescale"
    assert model.fusion(concat, read, [mac]).of_reader == 0.5
    assert model.fusion(concat, read, []) is None
    transposed = replace(mac, steps=(("transpose_conv2d", mac.steps[0][1]),))  # its RESCALE does not fuse
    assert model.fusion(concat, read, [transposed]) is None


def test_fusion_of_a_rescale_with_its_conv(model: VelaGroups) -> None:
    conv, rescale, *_ = units(residual())
    assert model.fusion(rescale, conv, []).of_reader == 1
    assert model.fusion(conv, rescale, []) is None


def test_a_constant_operand_has_its_price_and_its_narrow_form_another(model: VelaGroups) -> None:
    wide, row = Type((1, 16, 16, 32), "INT32"), Type((1, 1, 1, 32), "INT32")
    values = Const(np.arange(32, dtype=np.int32).reshape(row.shape), "INT32")
    with_input, with_constant = (Unit((("add", ()),), (wide, row), wide, (None, c)) for c in (None, values))
    prices = [p.cycles for p in model.price([with_input, with_constant])]
    assert prices[1] > 1.5 * prices[0]  # beside an INT32 constant no RESCALE fuses
    narrow = Const(np.arange(32, dtype=np.int8).reshape(row.shape), "INT8")
    rescale = Unit((("rescale", attrs_of({"dtype": "INT32"})),), (Type(row.shape, "INT8"),), row, (narrow,))
    assert model.fusion(with_constant, rescale, []).of_reader > 0.5
    assert model.fusion(with_constant, Unit(rescale.steps, rescale.operands, row, (None,)), []).of_reader == 0.0


def difference(x: Term, y: Term) -> Term:
    wide = [v.rescale("INT32", shift=20, in_zp=3) for v in (x, y)]
    return (wide[0] - wide[1]).rescale("INT8", shift=41)


def looked_up(x: Term) -> Term:
    return x.table(range(-128, 128))


@pytest.mark.parametrize("op", ["conv2d", "sub"])
def test_a_table_takes_the_output_path_of_what_carries_it(op: str, model: VelaGroups) -> None:
    """On U55 and U65 the longer of both counts; on U85 the TABLE costs nothing."""
    x, other = (v.clamp(-128, 126) for v in inputs("x:INT8[1,16,32,16] y:INT8[1,16,32,16]"))
    z = looked_up(x.layer(64, 1) if op == "conv2d" else difference(x, other))
    g = outputs(*(v.clamp(-128, 125 - k) for k, v in enumerate((x, other, z, z))))  # several readers: nothing fuses
    rows = compile_graph(g, model.target, model.pool).rows
    producer, read, reader = found = of(g, op, "rescale", "table")
    prices = {u: p.cycles for u, p in zip(found, model.price(found), strict=True)}
    saved = model.fusion(reader, read, [producer]).saving(prices[reader], prices[read], prices)
    assert (saved == prices[reader]) == (model.target.family is U85 or (model.target.family, op) == (U55, "sub"))
    measured = sum(r.priced for r in rows if r.operator in ("Conv2D", "Sub", "LUT"))
    assert prices[producer] + prices[reader] - saved == pytest.approx(measured, rel=0.1)


IMAGE, BATCH, WIDE = "x:INT8[1,8,8,16]", "x:INT8[4,8,8,16]", "x:INT8[1,8,20,16]"
#: Activations behind other operators, and whether Vela fuses them. Of a batch it makes a convolution per image, and of
#: sums that broadcast in more than one image several operators.
ACTIVATIONS: dict[str, tuple[str, Callable[..., Term], bool]] = {
    "CLAMP, convolution": (IMAGE, lambda x: x.layer(16, 3).relu(-20), True),
    "CLAMP, convolution of a batch": (BATCH, lambda x: x.layer(16, 3).relu(-20), False),
    "TABLE, convolution": (IMAGE, lambda x: looked_up(x.layer(16, 3)), True),
    "TABLE, convolution of a batch": (BATCH, lambda x: looked_up(x.layer(16, 3)), False),
    "TABLE, sum": ("x:INT8[2,4,8,16] y:INT8[2,4,8,16]", lambda x, y: looked_up(difference(x, y)), True),
    "TABLE, sum that broadcasts": (f"{IMAGE} y:INT8[1,8,8,1]", lambda x, y: looked_up(difference(x, y)), True),
    "TABLE, several sums": ("x:INT8[2,4,8,16] y:INT8[2,4,8,1]", lambda x, y: looked_up(difference(x, y)), False),
    "TABLE, TRANSPOSE to NHCW": (WIDE, lambda x: looked_up(x.transpose(0, 1, 3, 2)), True),
    "TABLE, TRANSPOSE to NCHW": (WIDE, lambda x: looked_up(x.transpose(0, 3, 1, 2)), True),
    "TABLE, REVERSE": (WIDE, lambda x: looked_up(x.reverse(1)), True),
    "TABLE, REDUCE_MAX": (WIDE, lambda x: looked_up(x.reduce("max", 2)), True),
    "TABLE, SLICE": (WIDE, lambda x: looked_up(x.slice((0, 1, 0, 0), (1, 7, 20, 16))), False),
    "TABLE, TILE": (WIDE, lambda x: looked_up(x("tile", multiples=(1, 2, 1, 1))), False),
}


@pytest.mark.parametrize(("given", "made", "fused"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_an_activation_costs_nothing_where_vela_fuses_it(
    given: str, made: Callable[..., Term], fused: bool, model: VelaGroups
) -> None:
    g = graph(given, made)
    cycles = {r.source: r.cycles for r in compile_graph(g, model.target, model.pool).rows}
    *others, read, reader = units(g)
    is_free = cycles.get("y0", cycles.get(f"n{g.outputs[0]}", 0)) == 0
    assert is_free == fused == ((model.fusion(reader, read, others[-1:]) or Fusion()).of_reader == 1.0)


@pytest.mark.parametrize("shift, fused", [(30, True), (20, False)])
def test_a_rescale_times_one_fuses_into_a_reduce_sum(shift: int, fused: bool, model: VelaGroups) -> None:
    (x,) = inputs("x:INT8[1,8,8,32]")
    g = outputs(x.rescale("INT32", shift=shift, in_zp=-3).reduce("sum", 3).rescale("INT8", shift=38))
    wide = next(n for n, node in enumerate(g.nodes) if node.op == "rescale")
    read, reader = (next(u for u in units(g) if u.op == op) for op in ("rescale", "reduce_sum"))
    rows = compile_graph(g, model.target, model.pool).rows
    assert all(r.source != f"n{wide}" for r in rows) == fused == (model.fusion(reader, read, []) is not None)


def test_convolutions_of_int16_have_a_price(model: VelaGroups) -> None:
    """Vela refuses one with a bare INT48 result: it is measured with the RESCALE that fuses into it."""
    macs = [u for u in units(loads(a16w8.explicit(model.target.accelerator))) if u.result.dtype == "INT48"]
    assert {u.op for u in macs} >= {"conv2d", "depthwise_conv2d"}
    assert all(0 < p.cycles < math.inf for p in model.price(macs))


@pytest.mark.slow
def test_a_network_of_int16_gets_better(model: VelaGroups, tmp_path: Path) -> None:
    given, options = a16w8.explicit(model.target.accelerator), Options(cache=tmp_path / "p", effort=1)
    result = optimize_tosa(given, model.target, options=options)
    assert (result.chosen, result.searched, result.verified) == ("eqsat", True, True)
    # on U85 Vela does not compile strides above 3 with padding behind a SLICE rightly (`wide_strides_of_a_slice` of its
    # defects)
    refused = "a candidate was not used: Vela compiles it wrongly"
    assert all(model.target.family is U85 and w.startswith(refused) for w in result.warnings)
    assert result.calibrated < 0.75 * result.explicit_calibrated


class CountingPool(Pool):
    """asked: how many calls each `map` was of. The workers are those of another pool."""

    def __init__(self, pool: Pool):
        self.pool, self.call, self.asked = pool, pool.call, list[int]()

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
        answers = self.pool.map(fn, items)
        self.asked.append(len(answers))
        return answers


@pytest.mark.parametrize("what", ["vela_version", "_measuring"])
def test_prices_are_remembered_for_one_version_of_vela_and_of_what_measures(
    what: str, pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counting, prices = CountingPool(pool), []

    def ask() -> int:
        with closing(PriceCache(tmp_path / "prices")) as cache:
            model = VelaGroups(Target.of("ethos-u55-128"), counting, cache)
            counting.asked.clear()
            prices.append([*model.price(units(residual())), *model.price([move((1, 8, 8, 16), (0, 2, 1, 3))])])
        return sum(counting.asked)

    first = ask()
    assert first > 1 and ask() == 0
    monkeypatch.setattr(cost_models.vela_groups, what, lambda: "another")
    assert ask() == first
    monkeypatch.undo()
    assert ask() == 0 and all(p == prices[0] for p in prices)


# ---- units that workers measure, several in a call ----------------------------------------------------

TARGET = Target.of("ethos-u55-128")


def clamp(low: int) -> Unit:
    kind = Type((1, 8, 8, 16), "INT8")
    return Unit((("clamp", makers.clamp("INT8", low, 50)),), (kind,), kind)


def transpose(*perm: int) -> Unit:
    shape = (1, 8, 4, 16)
    result = Type(tuple(shape[p] for p in perm), "INT8")
    return Unit((("transpose", attrs_of({"perms": perm})),), (Type(shape, "INT8"),), result, from_input=True)


OF_A_NETWORK = units(residual())
UNITS = [*OF_A_NETWORK, transpose(0, 2, 1, 3), transpose(0, 1, 3, 2), *map(clamp, range(-40, -20))]


def test_a_unit_reaches_a_worker_as_it_is() -> None:
    assert {u.op for u in UNITS} >= {"conv2d", "rescale", "add", "clamp", "transpose"}
    of_numpy = transpose(*np.array([0, 2, 1, 3]))  # equal to the unit of plain numbers
    for unit in (*UNITS, of_numpy):
        assert _unit(unpack(io.BytesIO(pack(_record(unit))).read)) == unit


def test_units_of_a_batch_have_the_prices_that_each_has_alone(pool: Pool) -> None:
    together = measure(UNITS, TARGET, pool)
    assert together == [c for unit in UNITS for c in measure([unit], TARGET, pool)]
    assert all(c is not None and 0 < c < math.inf for c in together[len(OF_A_NETWORK) :])


class Dying:
    """A pool whose workers die of one unit, as Vela can crash."""

    def __init__(self, pool: Pool, deadly: Unit) -> None:
        self.call_of_pool, self.map, self.deadly = pool.call, pool.map, _record(deadly)

    def call(self, function: Callable[..., Any], records: Any, *args: Any, limits: Limits) -> Any:
        if self.deadly in records:
            raise WorkerError("the worker died", killed=True)
        return self.call_of_pool(function, records, *args, limits=limits)


def test_a_unit_that_kills_a_worker_costs_only_its_own_price(pool: Pool) -> None:
    deadly = len(OF_A_NETWORK)
    found = measure(UNITS, TARGET, Dying(pool, UNITS[deadly]))  # type: ignore[arg-type]
    assert found.pop(deadly) == math.inf
    assert found == measure(UNITS[:deadly] + UNITS[deadly + 1 :], TARGET, pool)
