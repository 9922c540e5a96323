"""What a command stream costs: Vela's own figure where a graph is one command, that of its commands if it is many."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cost_models.calibration import calibration, vela_constants
from cost_models.command_stream import Ratio, StreamPrice, price, price_rows, price_with_ends
from eqsat.device.binary import compile_binary
from eqsat.device.core.errors import DeviceError
from eqsat.ground.worker import Pool
from eqsat.target import Target
from eqsat.target.family import U85
from eqsat.tensor.graph import TensorGraph
from eqsat.tosa import dumps
from eqsat.vela.facts import is_table_by_default, version
from tests.device.pieces import OF_U85, PIECES, of
from tests.graphs import compile_graph, products
from tests.term import graph

IMAGE, TWO = "x:INT8[1,24,20,32]", "x:INT8[1,24,20,32] y:INT8[1,24,20,32]"
ROWS = "x:INT8[1,32,32,16]"
#: Graphs of which Vela makes one command, and at most a copy of a table.
ONE = {
    "convolution": graph(IMAGE, lambda x: x.layer(8, 3)),
    "add": graph(
        TWO, lambda x, y: (x.rescale("INT32", shift=11) + y.rescale("INT32", 3 << 28, 11)).rescale("INT8", shift=50)
    ),
    "mul": graph(TWO, lambda x, y: (x.rescale("INT32") * y.rescale("INT32")).rescale("INT8", shift=41)),
    "table": graph(IMAGE, lambda x: x.table([7 * i % 100 - 50 for i in range(256)])),
    "average": graph(IMAGE, lambda x: x.average(2, 2, stride=(2, 2))),
    "largest": graph(IMAGE, lambda x: x.largest(2, 2, stride=(2, 2))),
}


def _priced(graph: TensorGraph, target: Target, pool: Pool, **changed: float) -> StreamPrice:
    """Returns the price by Vela's constants, but for some."""
    at = replace(vela_constants(target), **changed)
    return price(compile_binary(dumps(graph), target, pool).stream, target, at)


@pytest.mark.parametrize(
    "accelerator",
    [
        *("ethos-u55-32", "ethos-u55-128", "ethos-u65-512"),
        *("ethos-u85-128", "ethos-u85-256", "ethos-u85-512", "ethos-u85-1024", "ethos-u85-2048"),
    ],
)
def test_one_command_costs_what_vela_says(accelerator: str, pool: Pool) -> None:
    """With the copy of a table on U85, elsewhere without; of ops that Vela 5.1 prices as if they had one, no more."""
    target = Target.of(accelerator)
    for name, g in ONE.items():
        found, vela = _priced(g, target, pool), compile_graph(g, target, pool).cycles
        (computing,) = (k for kind, k in found.by_kind.items() if kind != "copy")
        assert computing.commands == 1
        if is_table_by_default(version()) and name != "table" and target.family is not U85:
            assert computing.cycles <= 1.02 * vela, name
        elif is_table_by_default(version()) and target.core.cores > 1:  # 5.1 joins the bursts of several cores
            assert found.cycles >= 0.998 * vela, name
        elif target.family is U85:
            assert found.cycles == pytest.approx(vela, rel=0.002), name
        else:
            assert computing.cycles == pytest.approx(vela, rel=0.02), name


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_a_transposition_costs_what_its_commands_cost(accelerator: str, pool: Pool) -> None:
    """(0, 1, 3, 2) of 32 rows is 32 poolings of one channel, which Vela's total takes as one pass over memory."""
    target, g = Target.of(accelerator), graph(ROWS, lambda x: x.transpose(0, 1, 3, 2))
    found = _priced(g, target, pool)
    assert (found.commands, list(found.by_kind)) == (32, ["pooling"])
    assert found.cycles > 3 * compile_graph(g, target, pool).cycles
    assert _priced(g, target, pool, per_command=100).cycles == found.cycles + 100 * found.commands


def test_kinds_add_up_and_copies_hide_behind_what_is_computed(pool: Pool) -> None:
    """The second convolution's weights are fetched during the first one."""
    target, g = Target.of("ethos-u55-128"), graph(ROWS, lambda x: x.layer(96, 3).layer(64, 3))
    found = _priced(g, target, pool)
    assert sum(k.cycles for k in found.by_kind.values()) == pytest.approx(found.cycles, abs=len(found.by_kind))
    assert sum(k.commands for k in found.by_kind.values()) == found.commands
    slow = _priced(g, target, pool, per_command=5000)
    assert slow.by_kind["copy"].cycles <= found.by_kind["copy"].cycles < 5000


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
@pytest.mark.parametrize("by", [(1, 1, 1, 48), (1, 1, 32, 48), (1, 32, 32, 1)])
def test_an_operand_that_broadcasts_is_read_once_a_block(accelerator: str, by: tuple[int, ...], pool: Pool) -> None:
    """So that it costs the same wherever it lies, but for its bytes."""
    target = Target.of(accelerator)
    as_it_is, staged = (products(copied, (1, 32, 32, 48), by) for copied in (False, True))
    found = _priced(as_it_is, target, pool)
    assert found.by_kind["elementwise"].cycles < 1.4 * _priced(staged, target, pool).by_kind["elementwise"].cycles


def test_every_kind_of_command_has_a_price(pool: Pool) -> None:
    for accelerator in ("ethos-u55-256", "ethos-u65-512", "ethos-u85-2048"):
        found = _priced(of(*PIECES), Target.of(accelerator), pool)
        assert set(found.by_kind) == {"convolution", "pooling", "elementwise", "copy"}
        computing = [k for kind, k in found.by_kind.items() if kind != "copy"]
        assert all(k.cycles > 0 for k in computing) and found.by_kind["copy"].cycles >= 0  # it may hide all of them
        twice = StreamPrice.together([found, found])
        assert (twice.cycles, twice.commands) == (2 * found.cycles, 2 * found.commands)
        assert twice.by_kind["pooling"].cycles == 2 * found.by_kind["pooling"].cycles


def test_streams_of_other_accelerators_are_refused(pool: Pool) -> None:
    u55, g = Target.of("ethos-u55-128"), ONE["convolution"]
    with pytest.raises(DeviceError, match="for ethos-u55-128, not ethos-u55-256"):
        price(compile_binary(dumps(g), u55, pool).stream, Target.of("ethos-u55-256"))


def test_a_chain_costs_what_vela_says(pool: Pool) -> None:
    """A difference, its square and absolute value that never leave the NPU, and what is written transposed."""
    target, by_name = Target.of("ethos-u85-256"), {p.name: p for p in OF_U85}
    for name in ("chain", "transpose_0213", "matrices"):
        g = by_name[name].graph("INT8")
        found, vela = _priced(g, target, pool), compile_graph(g, target, pool).cycles
        assert found.cycles == pytest.approx(vela, rel=0.05), name


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256", "ethos-u85-256"])
def test_rows_of_the_table_share_the_price_of_the_stream(accelerator: str, pool: Pool) -> None:
    """A CLAMP before and one behind a TRANSPOSE are poolings as it is, and each has its own price."""
    target = Target.of(accelerator)
    estimate = compile_graph(of(*PIECES), target, pool)
    whole, found = price_rows(estimate.stream, target, dict(estimate.raw["rows"]))
    assert set(found) <= set(range(len(estimate.rows))) and all(c >= 0 for c in found.values())
    assert whole == price(estimate.stream, target) and round(sum(found.values())) == whole.cycles
    copied = next(k for k, row in enumerate(estimate.rows) if row.operator == "Transpose")
    assert found[copied] > 0


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u65-256"])
def test_all_commands_of_an_operation_count_for_its_row(accelerator: str, pool: Pool) -> None:
    """Vela names the last command alone; a TRANSPOSE by (0, 1, 3, 2) of four rows takes four poolings."""
    target = Target.of(accelerator)
    g = graph("x:INT8[1,4,64,64]", lambda x: x.clamp(-100, 100).transpose(0, 1, 3, 2))
    estimate = compile_graph(g, target, pool)
    offsets = dict(estimate.raw["rows"])
    whole, cycles = price_rows(estimate.stream, target, offsets)
    clamped, transposed = ([row.operator for row in estimate.rows].index(op) for op in ("Clamp", "Transpose"))
    assert whole.commands == 5 and cycles[transposed] > 3 * cycles[clamped] > 0
    assert sum(row.command_bytes for row in estimate.rows) == max(offsets)


def test_a_ratio_has_an_interval_that_vanishes_between_equal_graphs(pool: Pool) -> None:
    target = Target.of("ethos-u55-128")
    moved = graph(ROWS, lambda x: x.transpose(0, 1, 3, 2))
    stream, other = (compile_graph(g, target, pool).stream for g in (moved, ONE["add"]))

    def ratio(ours: bytes, theirs: bytes) -> Ratio:
        (a, ends), (b, their_ends) = (price_with_ends(s, target) for s in (ours, theirs))
        assert a == price(ours, target)
        return Ratio.of(a.cycles, b.cycles, ends, their_ends)

    same, apart = ratio(stream, stream), ratio(stream, other)
    assert (same.value, same.within) == (1.0, 0.0) and str(same) == "+0.0% +- 0.0%"
    assert apart.within > 0  # nothing measured tells how long poolings of depth 1 take
    assert price(stream, target, replace(calibration(target), pooling=4)).cycles > price(stream, target).cycles


def test_a_command_costs_nothing_besides_where_all_memory_is_sram(pool: Pool) -> None:
    target = Target.of("ethos-u85-512", memory_mode="Sram_Only")
    at, stream = calibration(target), compile_graph(ONE["add"], target, pool).stream
    assert at.per_command > 0
    assert price(stream, target).cycles == price(stream, target, replace(at, per_command=0)).cycles
